package onemachine

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/local/localspec"
)

// leave writes the run directory of a cluster without processes, as a client and a keeper would have left it.
func leave(t *testing.T, l *Launcher, name, host string, keep time.Duration, files map[string]any) *cluster {
	t.Helper()
	c := l.cluster(name)
	k := units.Duration(keep)
	c.run.Record = record{Name: name, Host: host, Mark: "none of " + name, Created: time.Now(), Spec: spec.For(&spec.ClusterSpec{Name: name, Lifetime: spec.Lifetime{Keep: &k}}, localspec.Name)}
	if err := os.MkdirAll(c.run.Path(outputName), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range files {
		if err := writeFile(c.run.Path(file), content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(c.run.Path(recordFile), c.run.Record); err != nil {
		t.Fatal(err)
	}
	return c
}

// writeFile writes a document.
func writeFile(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// dead is the state of a keeper that cannot live: no process has this number.
func dead(name string) runstate.State {
	return runstate.State{Name: name, Attempt: 1, Phase: runstate.Ready, Keeper: runstate.Process{PID: 1 << 30, StartTime: 1},
		Job: &runstate.Job{State: runstate.JobRunning, LogFile: "job-driver-" + name + "-1.log"}}
}

func finished(name string) runstate.State {
	st := dead(name)
	st.Phase, st.Exit = runstate.Gone, &runstate.Exit{Origin: runstate.OriginDriver, Cause: runstate.CauseSucceeded}
	return st
}

func testLauncher(t *testing.T) *Launcher {
	t.Helper()
	l, err := New(Config{StateDir: t.TempDir(), CacheDir: t.TempDir()}, localSubstrate{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func listed(t *testing.T, l *Launcher) (out []string) {
	t.Helper()
	all, err := l.List(t.Context(), launcher.Selector{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		out = append(out, s.Name)
	}
	return out
}

func TestRecordsAreKeptAndPruned(t *testing.T) {
	l := testLauncher(t)
	commit := keeper.Commit{}
	old := leave(t, l, "old", l.host, time.Hour, map[string]any{keeper.ResultFile: finished("old"), keeper.CommitFile: commit})
	kept := leave(t, l, "kept", l.host, 3*time.Hour, map[string]any{keeper.ResultFile: finished("kept"), keeper.CommitFile: commit})
	leave(t, l, "none", l.host, 0, map[string]any{keeper.ResultFile: finished("none"), keeper.CommitFile: commit})
	abandoned := leave(t, l, "abandoned", l.host, time.Hour, map[string]any{keeper.ResultFile: finished("abandoned")})
	before := time.Now().Add(-2 * time.Hour)
	for _, c := range []*cluster{old, kept} {
		if err := os.Chtimes(c.run.Path(keeper.ResultFile), before, before); err != nil {
			t.Fatal(err)
		}
	}
	precious := old.run.Path(outputName, "checkpoint")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, l); len(got) != 2 {
		t.Errorf("listed: %v, want kept and, for a moment, none", got)
	}
	for _, c := range []*cluster{old, abandoned} {
		if _, err := os.Stat(c.run.Path(recordFile)); err != nil {
			t.Errorf("%s went because somebody listed: %v", c.run.Name, err)
		}
	}
	launcher.ReconcileBeside(t.Context(), l, "new", l.log)
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("the driver's output was removed: %v", err)
	}
	if _, err := os.Stat(abandoned.run.Dir); err == nil {
		t.Error("a launch that was given up is still there")
	}
	if _, err := l.Result(t.Context(), "old"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("old: %v", err)
	}
	if got, err := l.Reconcile(t.Context(), launcher.Scope{DryRun: true}); err != nil || len(got) != 0 {
		t.Errorf("left for gc: %+v, %v", got, err)
	}
}

// Whoever lists finds a dead cluster as it will be concluded, and changes nothing. What changes something concludes it.
func TestListOnlyReads(t *testing.T) {
	l := testLauncher(t)
	c := leave(t, l, "o", l.host, time.Hour, map[string]any{keeper.StateFile: dead("o"), keeper.CommitFile: keeper.Commit{}, keeper.TokenFile: "secret", keeper.RayTokenPrefix + "2": "secret"})
	begun := leave(t, l, "begun", l.host, time.Hour, map[string]any{keeper.StateFile: dead("begun")}) // never committed
	for _, kind := range []string{"before", "after"} {
		all, err := l.List(t.Context(), launcher.Selector{All: true})
		if err != nil || len(all) != 1 || all[0].Phase != runstate.Gone || all[0].Exit == nil || all[0].Exit.Code != runstate.CodeLost {
			t.Errorf("%s: %+v, %v", kind, all, err)
		}
		if living, err := l.List(t.Context(), launcher.Selector{}); err != nil || len(living) != 0 {
			t.Errorf("%s it lives: %+v, %v", kind, living, err)
		}
		for _, path := range []string{c.run.Path(keeper.TokenFile), c.run.Path(keeper.RayTokenPrefix + "2"), begun.run.Path(recordFile)} {
			if _, err := os.Stat(path); (err == nil) != (kind == "before") {
				t.Errorf("%s: %s: %v", kind, path, err)
			}
		}
		if c.run.HasResult() != (kind == "after") {
			t.Errorf("%s: there is a result: %v", kind, c.run.HasResult())
		}
		launcher.ReconcileBeside(t.Context(), l, "new", l.log)
	}
}

// The head's supervisor saved more of the driver's output than the keeper had copied when it was killed.
func TestOrphanGetsItsResult(t *testing.T) {
	l := testLauncher(t)
	c := leave(t, l, "o", l.host, time.Hour, map[string]any{keeper.StateFile: dead("o"), keeper.CommitFile: keeper.Commit{}, keeper.TokenFile: "secret", keeper.RayTokenPrefix + "2": "secret"})
	logs := c.run.Path(keeper.NodesDir, "head-0")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{c.run.Path(keeper.DriverLog): "first\n", filepath.Join(logs, "job-driver-o-1.log.from-6"): "second\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"read", "concluded"} {
		r, err := l.Result(t.Context(), "o")
		if err != nil {
			t.Fatal(err)
		}
		if r.Exit == nil || r.Exit.Code != runstate.CodeLost || r.Exit.Message != "the keeper was killed" || r.Log.Bytes != 13 {
			t.Errorf("%s: got %+v, log %+v", kind, r.Exit, r.Log)
		}
		log, err := r.OpenLog(t.Context(), 0, 3)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(log); err != nil || string(text) != "st\nsecond\n" || log.Close() != nil {
			t.Errorf("%s: output %q, %v", kind, text, err)
		}
		for _, path := range []string{c.run.Path(keeper.TokenFile), c.run.Path(keeper.RayTokenPrefix + "2"), filepath.Join(logs, "job-driver-o-1.log.from-6")} {
			if _, err := os.Stat(path); (err == nil) != (kind == "read") {
				t.Errorf("%s: %s: %v", kind, path, err)
			}
		}
		if err := l.Terminate(t.Context(), "o", launcher.End{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOtherMachinesClusterIsLeftAlone(t *testing.T) {
	l := testLauncher(t)
	c := leave(t, l, "far", "another-host", time.Hour, map[string]any{keeper.StateFile: dead("far"), keeper.CommitFile: keeper.Commit{}})
	for what, err := range map[string]error{
		"terminate": l.Terminate(t.Context(), "far", launcher.End{Cause: "down"}),
		"forget":    l.Forget(t.Context(), "far"),
	} {
		if launcher.ExitCode(err) != runstate.CodeUnreachable {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := l.List(t.Context(), launcher.Selector{})
	if err != nil || len(all) != 1 || all[0].Unreachable == "" {
		t.Errorf("list: %+v, %v", all, err)
	}
	if _, err := l.Reconcile(t.Context(), launcher.Scope{}); err != nil || c.run.HasResult() {
		t.Errorf("collect: %v", err)
	}
}

// gc removes nothing that it cannot read, and nothing of which something lives.
func TestUnreadableIsLeftAlone(t *testing.T) {
	l := testLauncher(t)
	bare := func(name string, files map[string]any) *cluster {
		c := leave(t, l, name, l.host, time.Hour, files)
		if err := os.Remove(c.run.Path(outputName)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	broken := func(c *cluster, file string) *cluster {
		if err := os.WriteFile(c.run.Path(file), []byte(`{"na`), 0o600); err != nil {
			t.Fatal(err)
		}
		return c
	}
	left := []*cluster{
		broken(bare("record", nil), recordFile),
		broken(bare("state", map[string]any{keeper.CommitFile: keeper.Commit{}}), keeper.StateFile),
		broken(bare("result", map[string]any{keeper.CommitFile: keeper.Commit{}}), keeper.ResultFile),
		bare("lost", map[string]any{keeper.CommitFile: keeper.Commit{}}), // its record is, its keeper lives
	}
	lost := left[3]
	if err := os.Remove(lost.run.Path(recordFile)); err != nil {
		t.Fatal(err)
	}
	living := exec.Command("sh", "-c", "read x", "keeper.pyz", "keeper", lost.run.Dir)
	in, err := living.StdinPipe()
	if err == nil {
		err = living.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer living.Wait() // it gets the signal to end
	defer in.Close()
	rest := bare("rest", nil)
	if err := os.Remove(rest.run.Path(recordFile)); err != nil {
		t.Fatal(err)
	}
	found, err := l.Reconcile(t.Context(), launcher.Scope{})
	if len(found) != 1 || found[0].Name != "rest" {
		t.Errorf("collected %+v", found)
	}
	for _, c := range left {
		if err == nil || !strings.Contains(err.Error(), c.run.Dir) {
			t.Errorf("%s is not named: %v", c.run.Name, err)
		}
		if entries, _ := os.ReadDir(c.run.Dir); len(entries) == 0 {
			t.Errorf("%s was removed", c.run.Name)
		}
	}
	if got := listed(t, l); !slices.Contains(got, "record") || !slices.Contains(got, "state") {
		t.Errorf("listed: %v", got)
	}
}

// TestInstallingCounts: the time in which a launch made the environment is a part of a run's account, before its nodes.
func TestInstallingCounts(t *testing.T) {
	l := testLauncher(t)
	c := leave(t, l, "a", l.host, time.Hour, map[string]any{keeper.ResultFile: finished("a")})
	began := c.run.Record.Created.Add(-40 * time.Second)
	c.run.Record.Began = &began
	st := finished("a")
	st.Since = c.run.Record.Created.Add(time.Second)
	rc := launcher.NewReceipt(launcher.NewResult(c.status(ended, &st), launcher.LogInfo{}, nil))
	if d := rc.Durations; d.Installing != 40 || d.Total != 41 || !rc.Created.Equal(began) || len(rc.Timeline) != 2 {
		t.Errorf("%+v of %v", d, rc.Timeline)
	}
}

// TestOneStatus: what ls shows of a cluster is what status shows first, whatever is left of it.
func TestOneStatus(t *testing.T) {
	l := testLauncher(t)
	commit := keeper.Commit{}
	leave(t, l, "ended", l.host, time.Hour, map[string]any{keeper.ResultFile: finished("ended"), keeper.StateFile: finished("ended"), keeper.CommitFile: commit})
	leave(t, l, "killed", l.host, time.Hour, map[string]any{keeper.StateFile: dead("killed"), keeper.CommitFile: commit})
	leave(t, l, "elsewhere", "another", time.Hour, map[string]any{keeper.StateFile: dead("elsewhere"), keeper.CommitFile: commit})
	outlived := leave(t, l, "outlived", l.host, time.Hour, map[string]any{keeper.ResultFile: finished("outlived"), keeper.StateFile: finished("outlived"), keeper.CommitFile: commit})
	rest := exec.CommandContext(t.Context(), "sleep", "600")
	rest.Env = outlived.run.Markers()
	if err := rest.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rest.Process.Kill(); _ = rest.Wait() })
	all, err := l.List(t.Context(), launcher.Selector{All: true})
	if err != nil || len(all) != 4 {
		t.Fatalf("listed: %+v, %v", all, err)
	}
	for _, row := range all {
		statuses, err := l.Watch(t.Context(), launcher.ID(row.Name))
		if err != nil {
			t.Fatal(err)
		}
		shown := <-statuses
		shown.Since = row.Since // of one whose keeper was killed: now
		for i := range shown.Timeline {
			shown.Timeline[i].At = row.Timeline[i].At
		}
		if !reflect.DeepEqual(shown, row) {
			t.Errorf("%s: status: %+v\nls: %+v", row.Name, shown, row)
		}
	}
}
