//go:build linux

package slurm_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestLastAttempt: what ends a run against its keeper's will ends it at once where no attempt may follow, with all of its output and its account.
func TestLastAttempt(t *testing.T) {
	b := start(t, slurmtest.Options{Nodes: 2})
	t.Run("KeeperKilled", b.keeperKilledWithOutput)
	t.Run("NodeFailed", b.nodeFailedLast)
	b.leavesNothing(t)
}

// keeperKilledWithOutput: what the driver wrote after its keeper's last look is in the record, and a restart that is left is made.
func (b *bed) keeperKilledWithOutput(t *testing.T) {
	g := b.gate(t)
	s := b.named("killed", "echo \"$(cat here)\"; [ $RAYCTL_ATTEMPT = 1 ] || exit 0; "+g.wait()+"; seq 20; touch "+g.path+".done; exec sleep 600")
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, asCommanded(t, s))
	r.until("running", jobRuns)
	b.copied(t, r.id, "killed\n")
	for _, p := range b.processes(t, r.id) {
		if strings.Contains(p.Command, "slurm_start.py") {
			if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.open()
	b.awaitFile(t, g.path+".done")
	b.killKeeper(t, r.id)
	receipt := r.ended(0, "succeeded", "")
	want := "killed\n"
	for i := range 20 {
		want += strconv.Itoa(i+1) + "\n"
	}
	if want += "killed\n"; r.out.String() != want || len(receipt.Attempts) != 2 || receipt.Attempts[0].Cause != "lost" {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), want, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// nodeFailedLast: the job that Slurm queues again is withdrawn, although nothing could start it.
func (b *bed) nodeFailedLast(t *testing.T) {
	s := b.spread("last", "echo \"$(cat here)\"; exec sleep 600")
	r := b.begin(t, s, asCommanded(t, s))
	st := r.until("running", jobRuns)
	b.copied(t, r.id, "last\n")
	release := b.closePartition(t)
	defer release()
	if _, err := b.Slurm(t.Context(), "scontrol", "update", "NodeName="+st.Nodes[1].Host, "State=DOWN", "Reason=test"); err != nil {
		t.Fatal(err)
	}
	receipt := r.ended(launcher.CodeLost, "lost", "node")
	if r.out.String() != "last\n" || receipt.Log.Bytes == 0 || receipt.Usage.NodeSeconds == 0 || len(receipt.Attempts) != 1 {
		t.Errorf("output %q; receipt %+v\n%s", r.out.String(), receipt, b.story(t, r.id))
	}
	r.forgotten()
}

func (b *bed) awaitFile(t *testing.T, path string) {
	t.Helper()
	b.Await(t, "the file "+path, func(context.Context) (bool, error) {
		_, err := os.Stat(path)
		return err == nil, nil
	})
}
