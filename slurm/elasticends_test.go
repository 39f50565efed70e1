//go:build linux

package slurm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// replaced waits until another node has taken the place of the one that there was, and returns why that one went.
func (e *disturbed) replaced(t *testing.T, before launcher.Status) string {
	t.Helper()
	lost := open(before)[0].ID
	e.now = e.until("of one node again", func(s launcher.Status) bool {
		return len(open(s)) == 1 && open(s)[0].ID != lost && len(living(s)) == 1 && living(s)[0].Allocation == open(s)[0].ID
	})
	for _, a := range e.now.Allocations {
		if a.ID == lost {
			return a.Message
		}
	}
	t.Fatalf("there is no %s any more", lost)
	return ""
}

// preempted: a job of higher priority takes the companion's node: another is asked for, and starts where there is room.
func (e *disturbed) preempted(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	other, err := e.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodelist="+living(before)[0].Host)
	if err != nil {
		t.Fatal(err)
	}
	if why := e.replaced(t, before); !strings.Contains(why, "its job "+job(open(before)[0])+" ended") {
		t.Errorf("why it went: %s", why)
	}
	if _, err := e.Slurm(t.Context(), "scancel", other); err != nil {
		t.Error(err)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// cancelled: somebody else cancels a companion; Ray's demand gets another one.
func (e *disturbed) cancelled(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	if _, err := e.Slurm(t.Context(), "scancel", job(open(before)[0])); err != nil {
		t.Fatal(err)
	}
	if why := e.replaced(t, before); !strings.Contains(why, "its job "+job(open(before)[0])+" ended") {
		t.Errorf("why it went: %s", why)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// unwanted: what is asked for, by demand, a changed file or by hand, and then not needed any more is not waited for.
func (e *disturbed) unwanted(t *testing.T) {
	again := e.partition(t, "State=DOWN")
	e.order(t, "b", 1)
	asked := last(e.until("queued", func(s launcher.Status) bool {
		return last(s).Released == nil && strings.Contains(last(s).Message, "PartitionDown")
	}))
	e.order(t, "b", 0)
	if a := last(e.have(t, 0)); a.ID != asked.ID || a.Granted != nil || a.Message != "nothing needed it any more" {
		t.Errorf("%+v", a)
	}
	for what, set := range map[string]func(*testing.T, int){"changed file": e.changeFile, "scale": e.scale} {
		set(t, 1)
		wanted := last(e.until("of a queued node by a "+what, func(s launcher.Status) bool {
			return len(open(s)) == 1 && last(s).ID != asked.ID && strings.Contains(last(s).Message, "PartitionDown")
		}))
		set(t, 0)
		if a := last(e.have(t, 0)); a.ID != wanted.ID || a.Granted != nil || a.Released == nil {
			t.Errorf("%s: %+v", what, a)
		}
		asked = wanted
	}
	again("State=UP")
}

// scale sets the least of group b, as `rayctl scale` does.
func (e *disturbed) scale(t *testing.T, least int) {
	t.Helper()
	e.askKeeper(t, func(k *keeper.Client) error {
		_, err := k.Scale(t.Context(), keeper.Scale{Group: "b", Min: least})
		return err
	})
}

// changeFile has the cluster take a file with another least of group b, as `rayctl up` does, which is the cluster's from then on.
func (e *disturbed) changeFile(t *testing.T, least int) {
	t.Helper()
	was, err := e.l.Accepted(t.Context(), e.id)
	if err != nil {
		t.Fatal(err)
	}
	now := spec.For(was, e.l.Name())
	now.Workers[1].MinReplicas, now.Workers[1].Replicas = &least, &least
	e.askKeeper(t, func(k *keeper.Client) error {
		_, err := k.Change(t.Context(), orders.Change(now))
		return err
	})
	if err := e.l.Accept(t.Context(), e.id, now); err != nil {
		t.Fatal(err)
	}
	if got, err := e.l.Accepted(t.Context(), e.id); err != nil || *got.Workers[1].MinReplicas != least {
		t.Errorf("accepted: %+v, %v", got, err)
	}
	if _, err := e.l.Launch(t.Context(), was, launcher.Payload{}); !errors.Is(err, launcher.ErrConflict) || !strings.Contains(err.Error(), "minReplicas") {
		t.Errorf("the file before: %v", err)
	}
}

func (e *disturbed) askKeeper(t *testing.T, ask func(*keeper.Client) error) {
	t.Helper()
	if err := launcher.AskKeeper(t.Context(), e.l, e.id, ask); err != nil {
		t.Fatal(err)
	}
}

// timeLimit: `rayctl extend` moves the limit of companions, too. One whose own time is over before the cluster's is drained in time, which the driver sees, and
// another one takes its place.
func (e *disturbed) timeLimit(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	e.extended(t, job(open(before)[0]))
	if _, err := e.Slurm(t.Context(), "scontrol", "update", "JobId="+job(open(before)[0]), "TimeLimit=2"); err != nil {
		t.Fatal(err)
	}
	e.order(t, "drained", 0, "seen")
	if why := e.replaced(t, before); !strings.Contains(why, "drained") {
		t.Errorf("why it went: %s", why)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// extended has the cluster end later, and with it a companion.
func (e *disturbed) extended(t *testing.T, number string) {
	t.Helper()
	limit := func() string {
		out, err := e.Slurm(t.Context(), "squeue", "--noheader", "--jobs="+number, "--format=%l")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	if before := limit(); !strings.HasPrefix(before, "2:5") && !strings.HasPrefix(before, "3:0") {
		t.Errorf("its limit is %s, and the cluster's 3 hours", before)
	}
	late := time.Now().Add(5 * time.Hour)
	if err := e.l.Extended(t.Context(), e.id, runstate.Deadlines{Max: &late}); err != nil {
		t.Error(err)
	}
	if after := limit(); !strings.HasPrefix(after, "5:0") {
		t.Errorf("its limit is %s after an extension to 5 hours", after)
	}
}

// taskRuns: the task takes longer than scaling.idle, and is not repeated; then the node goes.
func (e *disturbed) taskRuns(t *testing.T) {
	e.order(t, "task", 15, "here")
	e.have(t, 0)
}

// nodeDies: the companion's node is switched off; the next one is elsewhere.
func (e *disturbed) nodeDies(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	restore := e.powerOffHost(t, living(before)[0].Host)
	if why := e.replaced(t, before); why == "nothing needed it any more" || why == "" {
		t.Errorf("why it went: %s", why)
	}
	if host := living(e.now)[0].Host; host == living(before)[0].Host {
		t.Errorf("the next one is on %s, too", host)
	}
	restore()
	e.order(t, "b", 0)
	e.have(t, 0)
}

// downWhileQueued: nothing is left, also not of what never began, and the driver's output is whole.
func (e *disturbed) downWhileQueued(t *testing.T) {
	again := e.partition(t, "State=DOWN")
	e.order(t, "c", 1)
	e.until("queued", func(s launcher.Status) bool {
		return last(s).Groups["c"] == 1 && strings.Contains(last(s).Message, "PartitionDown")
	})
	e.down(t, e.l, e.id)
	e.ended(runstate.CodeInterrupted, "down", "")
	again("State=UP")
	e.whole(t)
	e.forgotten()
}
