//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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

// queue: the status of a waiting cluster has the reason, and it ends without having started Ray when its time in the queue is over, when it is ended,
// and when somebody cancels its job.
func (b *bed) queue(t *testing.T) {
	l := b.launcher()
	release := b.occupy(t)
	defer release()
	for name, test := range map[string]struct {
		end   func(t *testing.T, id launcher.ID)
		cause string
		code  int
	}{
		"q-limit":     {func(t *testing.T, id launcher.ID) { tend(t, l, id) }, "queue", runstate.CodeQueueTimeout},
		"q-down":      {func(t *testing.T, id launcher.ID) { b.down(t, l, id) }, "down", runstate.CodeInterrupted},
		"q-cancelled": {func(t *testing.T, id launcher.ID) { b.scancel(t, id) }, "interrupted", runstate.CodeInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.named(name, "echo never")
			if test.cause == "queue" {
				s.Lifetime.Queue = units.Limit(3 * time.Second)
			}
			id, err := l.Launch(t.Context(), s, launcher.Payload{})
			if err != nil {
				t.Fatal(err)
			}
			waits := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Reason.Code != "Submitted" })
			if waits.Phase != runstate.Queued || !slices.Contains([]string{"Resources", "Priority", "Pending"}, waits.Reason.Code) {
				t.Errorf("status while it waits: %s, %+v", waits.Phase, waits.Reason)
			}
			test.end(t, id)
			gone := watchUntil(t, l, id, isGone)
			if gone.Exit == nil || gone.Exit.Cause != test.cause || gone.Exit.Code != test.code {
				t.Errorf("exit: %+v", gone.Exit)
			}
			if left := b.allocated(t, id); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if err := l.Forget(t.Context(), id); err != nil {
				t.Error(err)
			}
			b.nothingLeft(t, name)
		})
	}
}

// tend does what is due as soon as something is.
func tend(t *testing.T, l launcher.Launcher, id launcher.ID) {
	t.Helper()
	s := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Due != nil })
	launcher.Tend(t.Context(), l, id, *s.Due, slog.Default())
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

// requeued: a preempted job comes back as the next attempt, with the same output directory, and its environment has the cause.
func (b *bed) requeued(t *testing.T) {
	s := b.named("again", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON in $RAYCTL_OUTPUT_DIR; [ $RAYCTL_ATTEMPT != 1 ] || exec sleep 600`)
	l := b.launcher()
	requeue := func(st launcher.Status) {
		if st.Attempt == 1 && st.Job != nil && st.Job.State == runstate.JobRunning && st.Phase == runstate.Ready {
			b.copied(t, "again", "attempt 1 because in ")
			if _, err := b.Slurm(t.Context(), "scontrol", "requeue", strings.TrimPrefix(st.Where, "job ")); err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var out bytes.Buffer
	oc, err := launcher.Run(ctx, l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out, OnStatus: requeue})
	if err != nil {
		t.Fatalf("%v\n%s", err, b.story(t, "again"))
	}
	output := filepath.Join(b.run("again"), "output")
	want := "attempt 1 because in " + output + "\nattempt 2 because preempted in " + output + "\n"
	if out.String() != want || oc.Receipt.Exit.Code != 0 || len(oc.Receipt.Attempts) != 2 {
		t.Errorf("output %q, want %q; exit %+v, attempts %+v\n%s", out.String(), want, oc.Receipt.Exit, oc.Receipt.Attempts, b.story(t, "again"))
	}
	if left := b.allocated(t, "again"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := l.Forget(ctx, "again"); err != nil {
		t.Error(err)
	}
}

// warned: Slurm's warning gives the driver its grace, and the next attempt starts if job.restarts allows it.
func (b *bed) warned(t *testing.T) {
	s := b.named("warned", `trap 'echo saving; sleep 2; echo saved; exit 0' TERM; echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || { sleep 600 & wait; }`)
	s.Lifetime.Max = units.Limit(10 * time.Hour) // the end is far: a warning is of preemption
	grace := units.Duration(time.Minute)
	s.Job.Grace = &grace
	l, sent := b.launcher(), false
	warn := func(st launcher.Status) {
		if !sent && st.Job != nil && st.Job.State == runstate.JobRunning {
			sent = true
			b.copied(t, "warned", "attempt 1 because\n")
			if _, err := b.Slurm(t.Context(), "scancel", "--batch", "--signal=USR1", strings.TrimPrefix(st.Where, "job ")); err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var out bytes.Buffer
	oc, err := launcher.Run(ctx, l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out, OnStatus: warn})
	if err != nil {
		t.Fatalf("%v\n%s", err, b.story(t, "warned"))
	}
	if want := "attempt 1 because\nsaving\nsaved\nattempt 2 because preempted\n"; out.String() != want || oc.Receipt.Exit.Code != 0 {
		t.Errorf("output %q, want %q; exit %+v\n%s", out.String(), want, oc.Receipt.Exit, b.story(t, "warned"))
	}
	if left := b.allocated(t, "warned"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := l.Forget(ctx, "warned"); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, "warned")
}
