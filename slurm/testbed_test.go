//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

func (b *bed) launcher() *slurm.Launcher {
	return launcherOf(b.beside)
}

func (b *bed) named(name, entrypoint string) *spec.ClusterSpec {
	s := b.spec()
	s.Name, s.Job.Entrypoint = name, entrypoint
	return s
}

// nothingLeft checks that neither Slurm nor slurm.dir has anything of this name.
func (b *bed) nothingLeft(t *testing.T, name string) {
	t.Helper()
	if left := b.allocated(t, launcher.ID(name)); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := os.Stat(b.run(launcher.ID(name))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
}

// refused: what can never run is refused at once, in a sentence with the next step, and leaves nothing.
func (b *bed) refused(t *testing.T) {
	l := b.launcher()
	limits := func(values ...string) {
		if _, err := b.Slurm(t.Context(), "scontrol", append([]string{"update", "PartitionName=high"}, values...)...); err != nil {
			t.Error(err)
		}
	}
	limits("MaxTime=5", "MaxMemPerNode=2048")
	defer limits("MaxTime=UNLIMITED", "MaxMemPerNode=0")
	for name, test := range map[string]struct {
		change func(*spec.ClusterSpec)
		want   string
	}{
		"no such partition":   {func(s *spec.ClusterSpec) { slurmspec.Of(s).Partition = "nope; $(id)" }, "slurm.partition"},
		"more nodes":          {func(s *spec.ClusterSpec) { *s.Workers[0].Replicas = 99 }, "number of workers"},
		"more CPUs":           {func(s *spec.ClusterSpec) { s.Workers[0].CPUs = 1000 }, "cpus"},
		"no such GPU":         {func(s *spec.ClusterSpec) { s.Workers[0].GPUs, s.Workers[0].GPUType = 1, "b200" }, "gpus"},
		"no such feature":     {func(s *spec.ClusterSpec) { slurmspec.Of(s).Constraint = "'quoted' thing" }, "slurm.constraint"},
		"no such node":        {func(s *spec.ClusterSpec) { slurmspec.Of(s).Nodelist = "elsewhere" }, "slurm.nodelist"},
		"no such argument":    {func(s *spec.ClusterSpec) { slurmspec.Of(s).ExtraArgs = []string{"--no-such-option=1"} }, "extraArgs"},
		"no such reservation": {func(s *spec.ClusterSpec) { slurmspec.Of(s).Reservation = "r" }, "slurm.reservation"},
		"no such time":        {func(s *spec.ClusterSpec) { slurmspec.Of(s).Begin = "yesterday" }, "slurm.begin"},
		"no such switches":    {func(s *spec.ClusterSpec) { slurmspec.Of(s).Switches = "x" }, "slurm.switches"},
		"no such job":         {func(s *spec.ClusterSpec) { slurmspec.Of(s).Dependency = "afterok:999999" }, "slurm.dependency"},
		"more memory":         {func(s *spec.ClusterSpec) { s.Workers[0].Memory = resource.MustParse("9Ti") }, "lower cpus, memory"},
		"too much memory": {func(s *spec.ClusterSpec) {
			slurmspec.Of(s).Partition, s.Workers[0].Memory = "high", resource.MustParse("3Gi")
		}, "lower the workers' memory"},
		"too long": {func(s *spec.ClusterSpec) { slurmspec.Of(s).Partition, s.Lifetime.Max = "high", units.Limit(time.Hour) }, "lower lifetime.max"},
	} {
		t.Run(name, func(t *testing.T) {
			one := 1
			s := &spec.ClusterSpec{Name: "refused", Ray: spec.Ray{Python: b.python}, Sections: slurmspec.In(&slurmspec.Section{}), Workers: []spec.WorkerGroup{{Name: "w", Replicas: &one, NodeResources: small()}}}
			s.Job.Entrypoint = "true"
			test.change(s)
			_, err := l.Launch(t.Context(), s, launcher.Payload{})
			if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
			}
			b.nothingLeft(t, "refused")
			if err := l.Validate(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), test.want) {
				t.Errorf("what --recreate asks before it ends anything: %v", err)
			}
		})
	}
}

// watchUntil watches until a status meets the condition, and returns it.
func watchUntil(t *testing.T, l launcher.Launcher, id launcher.ID, cond func(launcher.Status) bool) launcher.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var last launcher.Status
	for s := range statuses {
		if last = s; cond(s) {
			return s
		}
	}
	t.Fatalf("never seen; the last status: %+v", last)
	return last
}

func isGone(s launcher.Status) bool { return s.Phase == runstate.Gone }

// queue: the status of a waiting cluster has the reason, and it ends without having started Ray when somebody cancels its job, when its time in the queue is over,
// and when it is ended.
func (b *bed) queue(t *testing.T) {
	l := b.launcher()
	release := b.occupy(t)
	defer release()
	tests := []struct {
		name  string
		end   func(t *testing.T, id launcher.ID)
		cause string
		code  int
	}{
		{"q-cancelled", func(t *testing.T, id launcher.ID) { b.scancel(t, id) }, "interrupted", runstate.CodeInterrupted}, // seen at the next request, which the others do not wait for
		{"q-limit", func(t *testing.T, id launcher.ID) { tend(t, l, id) }, "queue", runstate.CodeQueueTimeout},
		{"q-down", func(t *testing.T, id launcher.ID) { b.down(t, l, id) }, "down", runstate.CodeInterrupted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := b.named(test.name, "echo never")
			if test.cause == "queue" {
				s.Lifetime.Queue = units.Limit(3 * time.Second)
			}
			var notes []string // before anything is requested
			id, err := l.Launch(t.Context(), s, launcher.Payload{Warn: func(text string) {
				notes = append(notes, text+strings.Join(b.allocated(t, launcher.ID(test.name)), ""))
			}})
			if err != nil {
				t.Fatal(err)
			}
			if told := len(notes) == 1 && strings.HasPrefix(notes[0], "Slurm itself cannot apply lifetime.queue") && strings.HasSuffix(notes[0], "timeLimit)"); told != (test.cause == "queue") || len(notes) > 1 {
				t.Errorf("notes: %q", notes)
			}
			waits := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Reason.Code != runstate.ReasonSubmitted })
			if waits.Phase != runstate.Queued || !slices.Contains([]string{"Resources", "Priority", "Pending"}, waits.Reason.Code) {
				t.Errorf("status while it waits: %s, %+v", waits.Phase, waits.Reason)
			}
			if a := allocation(waits, runstate.PurposeMain); a.State != runstate.AllocationQueued || a.Where != waits.Where || a.Message != waits.Reason.Message {
				t.Errorf("what waits: %+v", a)
			}
			test.end(t, id)
		})
	}
	for _, test := range tests {
		t.Run(test.name+"/ended", func(t *testing.T) {
			id := launcher.ID(test.name)
			gone := watchUntil(t, l, id, isGone)
			if a := allocation(gone, runstate.PurposeMain); a.State != runstate.AllocationReleased || a.Granted != nil {
				t.Errorf("what was never granted: %+v", a)
			}
			if gone.Exit == nil || gone.Exit.Cause != test.cause || gone.Exit.Code != test.code {
				t.Errorf("exit: %+v", gone.Exit)
			}
			if left := b.allocated(t, id); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if err := l.Forget(t.Context(), id); err != nil {
				t.Error(err)
			}
			b.nothingLeft(t, test.name)
		})
	}
}

// tend does what is due as soon as something is.
func tend(t *testing.T, l launcher.Launcher, id launcher.ID) {
	t.Helper()
	s := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Due != nil })
	launcher.ReconcileDue(t.Context(), l, id, *s.Due, slog.Default())
}

func (b *bed) down(t *testing.T, l launcher.Launcher, id launcher.ID) {
	t.Helper()
	if err := l.Terminate(t.Context(), id, launcher.End{Cause: "down", Message: "ended by the test"}); err != nil {
		t.Error(err)
	}
}

func (b *bed) scancel(t *testing.T, id launcher.ID) {
	t.Helper()
	if _, err := b.Slurm(t.Context(), "scancel", "--name="+string(id)); err != nil {
		t.Error(err)
	}
}

// controllerDown: a launch that Slurm does not answer is an error of its own and leaves nothing.
func (b *bed) controllerDown(t *testing.T) {
	if err := b.StopController(); err != nil {
		t.Fatal(err)
	}
	_, err := b.launcher().Launch(t.Context(), b.named("away", "echo never"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeUnreachable {
		t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
	}
	if err := b.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.nothingLeft(t, "away")
}
