package keeper_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// Nothing outlives the keeper, even if keeper and supervisors are killed together.
func TestKillKeeperAndSupervisors(t *testing.T) {
	t.Parallel()
	r := newRig(t, forever, func(o *keeper.Orders) {
		o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6))})
	}).start(nil)
	r.commit(keeper.Commit{})
	s := r.state("the driver runs", running)
	if !proc.Alive(s.Keeper.PID, s.Keeper.StartTime) {
		t.Error("a living keeper is taken for dead")
	}
	// First a worker's supervisor: the worker is reported by name, and Ray goes on.
	r.kill(s.Nodes[1].PID)
	s = r.state("the worker is reported", func(s *runstate.State) bool { return s.Nodes[1].State == "DEAD" })
	if !running(s) || !strings.Contains(s.Nodes[1].Message, "supervisor of node w-0 was killed by signal 9") {
		t.Errorf("after the worker's death: %+v", s.Nodes)
	}
	r.kill(s.Keeper.PID, s.Nodes[0].PID)
	r.nothingLeft()
	if proc.Alive(s.Keeper.PID, s.Keeper.StartTime) {
		t.Error("a killed keeper is taken for alive")
	}
}

const forever = "echo up; sleep 100000"

// Only the keeper is killed, while Ray starts; supervisors notice by their pipe. Before that all processes of another cluster are killed together: the directory of its
// node stays until this cluster's node removes it.
func TestKillKeeperWhileStarting(t *testing.T) {
	t.Parallel()
	killed := newRig(t, forever, nil).start(nil)
	killed.eventually("Ray is starting", func() bool { return len(killed.directories()) == 1 && len(killed.processes()) > 2 })
	killed.killAll()
	left := killed.directories()
	if len(left) != 1 {
		t.Fatalf("left of a cluster whose processes were all killed: %v", left)
	}
	r := newRig(t, forever, nil).start(nil)
	r.eventually("the next node removes it", func() bool { return len(killed.directories()) == 0 })
	r.eventually("Ray is starting", func() bool { return len(r.directories()) == 1 && len(r.processes()) > 2 })
	r.kill(r.cmd.Process.Pid)
	r.nothingLeft()
}

// killAll sends SIGKILL to all processes of the cluster, none of which can act in between.
func (r *rig) killAll() {
	r.t.Helper()
	for _, number := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for range 2 { // what was begun during the first look
			for _, line := range r.processes() {
				text, _, _ := strings.Cut(line, " ")
				pid, err := strconv.Atoi(text)
				r.must(err)
				_ = syscall.Kill(pid, number) // it may have ended
			}
		}
	}
	r.eventually("all processes are killed", func() bool { return len(r.processes()) == 0 })
}
