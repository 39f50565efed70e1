//go:build linux

package slurm_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestOldestVersion takes the oldest Slurm through what differs most between versions, on a file system as sites have their homes on: what one host writes others see
// seconds later. `make test-versions` does the same with the newest, and the whole suite is TestSlurm's, on the default version.
func TestOldestVersion(t *testing.T) {
	pace.Parallel(t)
	o := slurmtest.Options{Version: slurmtest.OldestVersion, NFS: os.Getuid() == 0}
	if !o.NFS { // without root the rest runs without NFS, and this counts as skipped
		t.Run("NFS", func(t *testing.T) { needs.Root(t) })
		differs(t, o)
		return
	}
	o.Users = []string{"alice"} // root cannot write there
	differs(t, o)
}

// differs is what differs most between versions of Slurm: a job of unlike groups from submission to result, the end of a cluster that waits and of one that runs, and
// the quick part of the suite.
func differs(t *testing.T, o slurmtest.Options) {
	o.Nodes, o.GPUs = 3, []slurmtest.GPU{{Type: "h100", Count: 2}}
	b := newBed(t, o)
	if len(o.Users) > 0 {
		b = b.as(o.Users[0])
	}
	t.Run("Run", b.runsOnce)
	t.Run("Queue", b.queue)
	t.Run("Terminate", b.terminated)
	t.Run("Conformance", func(t *testing.T) { conformance.Quick(t, b.config(t)) })
	b.leavesNothing(t)
}

func (b *bed) runsOnce(t *testing.T) {
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint = "once", "echo it\\'s $RAYCTL_ATTEMPT; exit 3"
	during, want := func(*watchedRun) {}, "it's 1\n"
	if b.Options.NFS {
		b = b.at(b.WithoutLinks(b.owner))
		during, want = b.serverAway(t, s), "1\n2\nit's 2\n"
	}
	two := 2
	s.Workers[1].Replicas, s.Workers[1].GPUs, s.Workers[1].GPUType = &two, 1, "h100"
	r := b.begin(t, s, launcher.Payload{})
	during(r)
	r.ended(3, "driver-failed", "code 3")
	if r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	r.forgotten()
}

// serverAway changes a job so that it waits, and returns what is to be done meanwhile: the NFS server answers nobody for 20 s. Everything waits for it, no end is
// concluded from that, and there is one driver. Then the job is requeued, where files have one name only: the second attempt has copies of what the first left.
func (b *bed) serverAway(t *testing.T, s *spec.ClusterSpec) func(*watchedRun) {
	g := b.waitFile(t)
	drivers := g.path + ".drivers"
	s.Job.Entrypoint = "echo $RAYCTL_ATTEMPT | tee -a " + drivers + "; " + g.wait() + "; " + s.Job.Entrypoint
	s.Job.Restarts.NodeFailure = 1 // which a cluster that is taken for lost would use
	return func(r *watchedRun) {
		running := r.until("running", jobRuns)
		b.copied(t, r.id, "1\n")
		if err := b.FreezeNFS(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.done:
			t.Errorf("it ended while the server was away: %v, %+v", r.err, r.outcome)
		case <-time.After(20 * time.Second):
		}
		if err := b.ThawNFS(); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(drivers); err != nil || string(text) != "1\n" {
			t.Errorf("drivers %q, %v", text, err)
		}
		first := b.rayToken(t, r.id, "1")
		if _, err := b.Slurm(t.Context(), "scontrol", "requeue", strings.TrimPrefix(running.Where, "job ")); err != nil {
			t.Error(err)
		}
		r.until("running again", func(s launcher.Status) bool { return s.Attempt == 2 && jobRuns(s) })
		b.copies(t, r.id)
		if b.rayToken(t, r.id, "2") == first {
			t.Error("Ray's token of the second attempt is the first one's")
		}
		g.create()
		<-r.done
		if text, err := os.ReadFile(drivers); err != nil || string(text) != "1\n2\n" {
			t.Errorf("drivers %q, %v", text, err)
		}
	}
}

// rayToken is Ray's token of an attempt that lives.
func (b *bed) rayToken(t *testing.T, id launcher.ID, attempt string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.runDir(id), attempt, keeper.RayTokenPrefix+"*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	token, err := os.ReadFile(files[0])
	if err != nil {
		t.Error(err)
	}
	return string(token)
}

// copies: each file of the run has one name, and the second attempt has what it needs of the first.
func (b *bed) copies(t *testing.T, id launcher.ID) {
	t.Helper()
	err := filepath.WalkDir(b.runDir(id), func(path string, d os.DirEntry, err error) error {
		if info, statErr := os.Lstat(path); err == nil && statErr == nil && info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("%s has %d names", path, info.Sys().(*syscall.Stat_t).Nlink)
		}
		return nil // what vanishes meanwhile
	})
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"seed/token", "2/token", "2/driver-1.log"} {
		if _, err := os.Stat(filepath.Join(b.runDir(id), name)); err != nil {
			t.Error(err)
		}
	}
}

func (b *bed) terminated(t *testing.T) {
	s := b.named("ended", "")
	s.Lifetime.Max = units.Limit(10 * time.Minute)
	r := b.begin(t, s, launcher.Payload{})
	r.until("ready", func(s launcher.Status) bool { return s.Phase == runstate.Ready })
	b.extends(t, r.l, r.id)
	b.down(t, r.l, r.id)
	r.ended(runstate.CodeInterrupted, "down", "ended by the test")
	r.forgotten()
}

// extends: Slurm's own limit of the job follows the keeper's. root may raise it; another user gets the job's end and what to request.
func (b *bed) extends(t *testing.T, l *slurm.Launcher, id launcher.ID) {
	t.Helper()
	limit := func() string {
		t.Helper()
		out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name="+string(id), "--format=%l")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	administrator := os.Getuid() == 0 && b.owner == ""
	before := limit()
	soon, late := time.Now().Add(2*time.Minute), time.Now().Add(5*time.Hour)
	if err := l.Extended(t.Context(), id, runstate.Deadlines{Max: &soon}); err != nil || limit() != before {
		t.Errorf("a deadline before Slurm's: %v, %s", err, limit())
	}
	err := l.Extended(t.Context(), id, runstate.Deadlines{Max: &late})
	switch {
	case administrator && (err != nil || !strings.HasPrefix(limit(), "5:0")):
		t.Errorf("a later deadline: %v, Slurm's limit %s", err, limit())
	case !administrator && (launcher.ExitCode(err) != runstate.CodePermission || !strings.Contains(err.Error(), "scontrol update JobId=") || limit() != before):
		t.Errorf("a later deadline: %v, Slurm's limit %s", err, limit())
	}
}

// TestEachVersion is what needs no Ray and what each version of Slurm answers in its own form: commands that run in a cluster, the planned start, and the requests of
// slurmrestd, whose API has three forms.
func TestEachVersion(t *testing.T) {
	pace.Parallel(t)
	for _, version := range []string{slurmtest.OldestVersion, slurmtest.DefaultVersion, slurmtest.NewestVersion} {
		t.Run(version, func(t *testing.T) {
			pace.Parallel(t)
			b := newBed(t, slurmtest.Options{
				Version: version, Nodes: 2, GPUs: []slurmtest.GPU{{Type: "h100", Count: 2}}, LoginSSH: true, Slurmrestd: os.Getuid() == 0,
				Settings: map[string]string{"Licenses": "fluent:9", "TrackWCKey": "yes"},
			})
			planned := b.plannedStart(t) // Slurm plans it meanwhile
			t.Run("Exec", b.commands)
			t.Run("PlannedStart", planned)
			t.Run("REST", b.rest)
			b.leavesNothing(t)
		})
	}
}

// plannedStart launches a cluster that waits for node2; what it returns checks that the start which Slurm expects is shown. (doctor's tests cover the output of
// `sbatch --test-only`.)
func (b *bed) plannedStart(t *testing.T) (shown func(t *testing.T)) {
	t.Helper()
	other, err := b.Submit(t.Context(), "sleep 1000", "--exclusive", "--time=30", "--nodelist=node2")
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitJob(t, other, "RUNNING")
	l, s := b.launcher(), b.named("planned", "true")
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Nodelist: "node2"}})
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) {
		st := watchUntil(t, l, id, func(s launcher.Status) bool {
			return strings.Contains(s.Reason.Message, "Slurm expects to start it at ")
		})
		if st.Phase != runstate.Queued || st.Reason.Code != "Resources" && st.Reason.Code != "Priority" {
			t.Errorf("status: %s, %+v", st.Phase, st.Reason)
		}
		b.removed(t, l, id)
		if _, err := b.Slurm(t.Context(), "scancel", other); err != nil {
			t.Error(err)
		}
	}
}
