//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
)

// nodesMayNotSubmit: doctor finds it before anything is launched.
func (e *disturbed) nodesMayNotSubmit(t *testing.T) {
	find := func() (found launcher.Check) {
		for _, c := range e.launcher().Check(t.Context(), e.spec) {
			if strings.HasPrefix(c.Name, "jobs from node") {
				found = c
			}
		}
		return found
	}
	if c := find(); !c.OK {
		t.Errorf("where they may: %+v", c)
	}
	e.touch(t, "login-only")
	defer e.allow(t)
	if c := find(); c.Name == "" || c.OK || !strings.Contains(c.Hint, "while `rayctl run`, `up` or `submit` watches") || strings.Contains(c.Detail+c.Hint, "\n") {
		t.Errorf("where they may not: %+v", c)
	}
}

// allow lets compute nodes submit again.
func (e *disturbed) allow(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(e.dir, "login-only")); err != nil {
		t.Error(err)
	}
}

// submitted counts the submissions of companions so far.
func (e *disturbed) submitted(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, "submitted"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "-elastic-")
}

// answerLost: sbatch submits and is killed. There is one job, and it is the node.
func (e *disturbed) answerLost(t *testing.T) {
	e.touch(t, "lose")
	e.order(t, "b", 1)
	e.have(t, 1)
	if n := e.submitted(t); n != 1 {
		t.Errorf("%d submissions", n)
	}
}

// refused: compute nodes may not submit; the client that watches does it once for all nodes that are asked for at once, and the timeline notes that they need one.
func (e *disturbed) refused(t *testing.T) {
	e.touch(t, "login-only")
	defer e.allow(t)
	submitted := e.submitted(t)
	e.order(t, "b", 2)
	s := e.have(t, 2)
	if words := "compute nodes may not submit jobs: more nodes come while `rayctl run`, `up` or `submit` watches"; strings.Count(notes(s), words) != 1 {
		t.Errorf("notes: %s", notes(s))
	}
	e.array(t)
	if n := e.submitted(t) - submitted; n != 1 {
		t.Errorf("%d submissions", n)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// controllerAway: it is away when a node is asked for; when it is back there is one job.
func (e *disturbed) controllerAway(t *testing.T) {
	before := e.submitted(t)
	if err := e.StopController(); err != nil {
		t.Fatal(err)
	}
	e.order(t, "b", 1)
	e.Await(t, "a submission", func(context.Context) (bool, error) { return e.submitted(t) > before, nil })
	e.startController(t)
	e.have(t, 1)
	e.order(t, "b", 0)
	e.have(t, 0)
}

// never: nodes that Slurm can never start are given up, reported, and not requested again until somebody sets the group's size.
func (e *disturbed) never(t *testing.T) {
	again := e.partition(t, "State=DOWN")
	e.order(t, "b", 1)
	e.until("queued", func(s launcher.Status) bool {
		return last(s).Released == nil && strings.Contains(last(s).Message, "PartitionDown")
	})
	again("State=UP", "MaxTime=1")
	s := e.noted(t, "group b gets no more nodes: Slurm can never start its job")
	if a := last(s); a.Released == nil || a.Granted != nil || !strings.Contains(a.Message, "PartitionTimeLimit") {
		t.Errorf("%+v", a)
	}
	before := e.submitted(t)
	e.noted(t, "a placement group waits for a node with b 1, and no group has such nodes")
	if n := e.submitted(t) - before; n > 0 {
		t.Errorf("%d jobs were submitted", n)
	}
	again("MaxTime=UNLIMITED")
	e.scale(t, 1) // asks for them again
	e.have(t, 1)
	e.scale(t, 0)
	e.order(t, "b", 0)
	e.have(t, 0)
}

// maxAllocations: there are no more nodes than the file allows, and a note reports that once. Those that are requested at once are one job array, and go one by one.
func (e *disturbed) maxAllocations(t *testing.T) {
	submitted := e.submitted(t)
	e.order(t, "b", 3)
	words := "group b needs 1 more nodes, but the cluster already has the 2 that scaling.maxAllocations allows"
	e.noted(t, words)
	if s := e.have(t, 2); strings.Count(notes(s), words) != 1 {
		t.Errorf("notes: %s", notes(s))
	}
	array := e.array(t)
	if n := e.submitted(t) - submitted; n != 1 {
		t.Errorf("%d submissions for nodes that were asked for at once", n)
	}
	e.order(t, "b", 1)
	if left := job(open(e.have(t, 1))[0]); !strings.HasPrefix(left, array+"_") {
		t.Errorf("job %s is left of array %s", left, array)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// array is the number of the one job array that all nodes are elements of; an element's index is its node's.
func (e *disturbed) array(t *testing.T) (number string) {
	t.Helper()
	for _, a := range open(e.now) {
		name, _, _ := strings.Cut(a.ID, ".")
		id, index, _ := strings.Cut(job(a), "_")
		if number == "" {
			number = id
		}
		if id != number || name != "b-"+index {
			t.Errorf("%s is job %s, and another one is of array %s", name, job(a), number)
		}
	}
	return number
}

// unmet: the keeper notes demand that no group can satisfy, and requests nothing for it.
func (e *disturbed) unmet(t *testing.T) {
	before := e.submitted(t)
	e.order(t, "huge", 1000)
	e.until("both told", func(s launcher.Status) bool {
		return strings.Contains(notes(s), "tasks or actors wait for a node with CPU 1000, and no group has such nodes") &&
			strings.Contains(notes(s), "but the memory of group c is not known before its first node: set the group's memory in the cluster file")
	})
	e.touch(t, "enough")
	if n := e.submitted(t) - before; n > 0 {
		t.Errorf("%d jobs were submitted", n)
	}
}

// flaps: demand that comes and goes 20 times is no reason for 20 jobs.
func (e *disturbed) flaps(t *testing.T) {
	before := e.submitted(t)
	e.order(t, "flap", 2, "flapped")
	e.until("of a node", func(s launcher.Status) bool { return len(open(s)) > 0 })
	e.have(t, 0)
	if n := e.submitted(t) - before; n > 4 {
		t.Errorf("%d jobs were submitted", n)
	}
}

// expected: Slurm's plan for a companion that waits is shown while it waits.
func (e *disturbed) expected(t *testing.T) {
	other, err := e.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodes=3", "--time=20")
	if err != nil {
		t.Fatal(err)
	}
	e.AwaitJob(t, other, "RUNNING")
	e.order(t, "b", 1)
	s := e.until("planned", func(s launcher.Status) bool { return len(open(s)) == 1 && last(s).Expected != nil })
	if a := last(s); a.State != "queued" || time.Until(*a.Expected) > 21*time.Minute || time.Until(*a.Expected) < 10*time.Minute {
		t.Errorf("%+v", a)
	}
	if _, err := e.Slurm(t.Context(), "scancel", other); err != nil {
		t.Error(err)
	}
	if s := e.have(t, 1); last(s).Expected != nil {
		t.Errorf("%+v", last(s))
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// partition changes the partition; what it returns changes it again.
func (e *disturbed) partition(t *testing.T, values ...string) func(...string) {
	t.Helper()
	set := func(values ...string) {
		if _, err := e.Slurm(context.Background(), "scontrol", append([]string{"update", "PartitionName=main"}, values...)...); err != nil {
			t.Error(err)
		}
	}
	set(values...)
	return set
}

// noted waits for a note in the timeline.
func (e *disturbed) noted(t *testing.T, words string) launcher.Status {
	t.Helper()
	return e.until("told "+words, func(s launcher.Status) bool { return strings.Contains(notes(s), words) })
}

// notes are the timeline's messages about scaling.
func notes(s launcher.Status) (text string) {
	for _, ev := range s.Timeline {
		if ev.Kind == "scaling" {
			text += ev.Message + "\n"
		}
	}
	return text
}
