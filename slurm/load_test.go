//go:build linux

package slurm_test

import (
	"context"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestLoad counts what the controller is asked while many watch one cluster that waits and then runs. The counts do not depend on how many watch.
func TestLoad(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{Nodes: 2})
	release := sync.OnceFunc(b.occupy(t))
	defer release()
	many := b.sharing(t, watchers)
	g := b.waitFile(t)
	s := b.named("load", g.wait())
	s.Workers = nil
	id, err := many[0].Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.down(t, many[0], id)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	seen := &statuses{}
	for _, l := range many {
		seen.follow(ctx, t, l, id)
	}
	seen.awaitAll(t, "why it waits", func(s launcher.Status) bool { return s.Reason.Code == "Resources" })
	waiting := b.measure(t, "waiting", func() {
		b.Await(t, "three more questions", func(ctx context.Context) (bool, error) {
			counts, err := b.Requests(ctx)
			plans(counts)
			return sum(counts) >= 3*question, err
		})
	})
	if waiting > mostWaiting {
		t.Errorf("%.1f requests a minute while waiting, with %d watchers", waiting, watchers)
	}
	release()
	seen.awaitAll(t, "running", func(s launcher.Status) bool { return s.Job != nil && s.Job.State == runstate.JobRunning })
	running := b.measure(t, "running", func() { time.Sleep(window) })
	if running > mostRunning {
		t.Errorf("%.1f requests a minute while running, with %d watchers", running, watchers)
	}
	g.create()
	seen.awaitAll(t, "ended by its driver", func(s launcher.Status) bool {
		return isGone(s) && s.Exit != nil && s.Exit.Cause == runstate.CauseSucceeded
	})
}

// sharing makes launchers that are what processes of one user are to one another.
func (b *bed) sharing(t *testing.T, n int) (out []*slurm.Launcher) {
	file := filepath.Join(t.TempDir(), "answers.json")
	for range n {
		l := slurm.New(slurm.Config{Runner: b.beside, Dir: b.Dir(), Shared: file})
		t.Cleanup(l.Close)
		out = append(out, l)
	}
	return out
}

// watchers is how many watch: each as a process of its own would, sharing only the file.
const watchers = 50

// statuses are the last that each watcher saw.
type statuses struct {
	mu   sync.Mutex
	last map[launcher.Launcher]launcher.Status
}

func (s *statuses) follow(ctx context.Context, t *testing.T, l launcher.Launcher, id launcher.ID) {
	t.Helper()
	all, err := l.Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for st := range all {
			s.mu.Lock()
			if s.last == nil {
				s.last = map[launcher.Launcher]launcher.Status{}
			}
			s.last[l] = st
			s.mu.Unlock()
		}
	}()
}

// awaitAll waits for a condition of all watchers' last statuses, which may need Ray's start.
func (s *statuses) awaitAll(t *testing.T, what string, cond func(launcher.Status) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.count(cond) != watchers {
		if wrong := s.wronglyGone(cond); wrong != nil {
			t.Fatalf("it is gone before it was seen %s: %+v", what, wrong.Exit)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
	}
}

func (s *statuses) count(cond func(launcher.Status) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.last {
		if cond(st) {
			n++
		}
	}
	return n
}

// wronglyGone is a watcher's last status that can no longer become what is waited for; nil: there is none.
func (s *statuses) wronglyGone(cond func(launcher.Status) bool) *launcher.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.last {
		if isGone(st) && !cond(st) {
			return &st
		}
	}
	return nil
}

// measure counts the requests of a while, in a minute.
func (b *bed) measure(t *testing.T, what string, while func()) float64 {
	t.Helper()
	if err := b.ResetRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	while()
	counts, err := b.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if n := plans(counts); n > 1 {
		t.Errorf("Slurm was asked %d times when the job would start, within %s", n, took)
	}
	// The first question after the reset may be due at once: it belongs to the minute before.
	perMinute := float64(max(0, sum(counts)-question)) / took.Minutes()
	t.Logf("%s: %v in %s with %d watchers: %.1f a minute", what, counts, took.Round(time.Second), watchers, perMinute)
	return perMinute
}

// plans takes the requests of `sbatch --test-only` out of counts, one of each kind, and returns how many there were: on a loaded machine a job waits
// long enough to be planned.
func plans(counts map[string]int) int {
	n := counts["REQUEST_JOB_WILL_RUN"]
	delete(counts, "REQUEST_JOB_WILL_RUN")
	delete(counts, "REQUEST_FED_INFO")
	return n
}

func sum(counts map[string]int) (n int) {
	for c := range maps.Values(counts) {
		n += c
	}
	return n
}

// What a cluster may cost the controller in a minute.
const (
	mostWaiting = 6.7 // four counted requests within 36 s: the first two pauses are of 12 s and, as they grow with the job's age, at least 24 s
	mostRunning = 2
	question    = 2                // requests of a squeue: jobs and partitions
	window      = 45 * time.Second // for what is not asked at all
)
