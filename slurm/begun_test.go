//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
)

// begun is a run that goes on while a test disturbs it.
type begun struct {
	*bed
	t        *testing.T
	l        *slurm.Launcher
	id       launcher.ID
	statuses chan launcher.Status
	done     chan struct{}

	// After done:
	out     bytes.Buffer
	outcome *launcher.Outcome
	err     error
}

// begin starts a run. What it leaves is looked for when it has ended.
func (b *bed) begin(t *testing.T, s *spec.ClusterSpec, p launcher.Payload) *begun {
	t.Helper()
	return b.beginBy(t, b.launcher(), s, p)
}

// beginBy starts a run by a launcher.
func (b *bed) beginBy(t *testing.T, l *slurm.Launcher, s *spec.ClusterSpec, p launcher.Payload) *begun {
	t.Helper()
	r := &begun{bed: b, t: t, l: l, id: launcher.ID(s.Name), statuses: make(chan launcher.Status, 1000), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	go func() {
		defer close(r.done)
		r.outcome, r.err = launcher.Run(ctx, r.l, s, p, launcher.RunOptions{Stdout: &r.out, OnStatus: func(s launcher.Status) { r.statuses <- s }})
	}()
	return r
}

// until waits for a status that was not seen before.
func (r *begun) until(what string, cond func(launcher.Status) bool) launcher.Status {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	var last launcher.Status
	for {
		select {
		case last = <-r.statuses:
			if cond(last) {
				return last
			}
		case <-r.done:
			r.t.Fatalf("it ended before it was %s: %v, %+v\n%s", what, r.err, r.outcome, r.story(r.t, r.id))
		case <-ctx.Done():
			r.t.Fatalf("never %s; the last status: %+v\n%s", what, last, r.story(r.t, r.id))
		}
	}
}

func jobRuns(s launcher.Status) bool { return s.Job != nil && s.Job.State == runstate.JobRunning }

// ended waits for the end and checks it: the exit code, its cause, one sentence with these words, and that nothing but one record is left.
func (r *begun) ended(code int, cause, words string) *launcher.Receipt {
	r.t.Helper()
	<-r.done
	if r.err != nil {
		r.t.Fatalf("%v\n%s", r.err, r.story(r.t, r.id))
	}
	e := r.outcome.Receipt.Exit
	if e.Code != code || e.Cause != cause || !strings.Contains(e.Message, words) || strings.Contains(e.Message, "\n") {
		r.t.Errorf("exit: %+v, want code %d, %s: %s\n%s", e, code, cause, words, r.story(r.t, r.id))
	}
	if left := r.allocated(r.t, r.id); len(left) > 0 {
		r.t.Errorf("left: %q", left)
	}
	for _, private := range []string{"seed", "*/token", "*/ray-token.*", "*/secrets.json", "*/package-*", "*/.reserve", "*/*.tmp", "*.part*"} {
		if found, _ := filepath.Glob(filepath.Join(r.run(r.id), private)); len(found) > 0 {
			r.t.Errorf("left in the record: %q", found)
		}
	}
	return r.outcome.Receipt
}

// forgotten removes the record.
func (r *begun) forgotten() {
	r.t.Helper()
	if err := r.l.Forget(context.Background(), r.id); err != nil {
		r.t.Error(err)
	}
	r.nothingLeft(r.t, string(r.id))
}

// gate is a file that a driver waits for: see wait.
type gate struct {
	t    *testing.T
	path string
}

func (b *bed) gate(t *testing.T) gate {
	return gate{t, filepath.Join(b.Cluster.Dir, "shared", strings.ReplaceAll(t.Name(), "/", "-"))}
}

// wait is the shell that waits for the gate, on a node. A client of NFS believes that a name is not there until it lists the directory.
func (g gate) wait() string {
	// Its errors go nowhere: a shell whose `sleep` got Slurm's signal first writes "Terminated" before it dies, too.
	return "{ until ls " + filepath.Dir(g.path) + " >/dev/null && [ -e " + g.path + " ]; do sleep 0.2; done; } 2>/dev/null"
}

func (g gate) open() {
	g.t.Helper()
	if err := os.WriteFile(g.path, nil, 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// asCommanded makes a launch as the command does: with a working directory, a runtime environment and a secret. The driver finds the file `here`.
func asCommanded(t *testing.T, s *spec.ClusterSpec) launcher.Payload {
	t.Helper()
	dir, cache := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte(s.Name), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Secrets = []spec.Secret{{Name: "WORD"}}
	return launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}, Packages: func(ctx context.Context) (*launcher.Packages, error) {
		made, err := pack.WorkingDir(ctx, dir, pack.Options{CacheDir: cache})
		if err != nil {
			return nil, err
		}
		return &launcher.Packages{
			Files:      []launcher.PackageFile{{URI: made.URI, Path: made.Path, Size: made.Size}},
			RuntimeEnv: map[string]any{"working_dir": made.URI, "env_vars": map[string]any{"SAID": "so"}},
		}, nil
	}}
}
