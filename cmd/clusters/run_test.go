package clusters

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestQuietFailure: -q prints the error of a run that rayctl ended, and nothing for a run that the driver ended.
func TestQuietFailure(t *testing.T) {
	for origin, want := range map[string]string{"rayctl": "rayctl: x ended: no Ray here (start failed, exit code 73)\n", "driver": ""} {
		a, _, stderr := apptest.New()
		a.Quiet = true
		a.Getenv = func(string) string { return t.TempDir() }
		rc := &launcher.Receipt{Name: "x", Exit: runstate.Exit{Cause: "start-failed", Code: 73, Origin: origin, Message: "no Ray here"}}
		err := finishRun(t.Context(), a, &runOptions{}, &launcher.Outcome{Receipt: rc})
		if app.ExitCode(err) != 73 || stderr.String() != want {
			t.Errorf("%s: %v, %q", origin, err, stderr)
		}
	}
}

// TestQuietName: with -q the name that run has generated is the only line on stderr, and stdout has the driver's bytes alone.
func TestQuietName(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{"run -q -- true": `^[a-z0-9-]+-[a-z0-9]{5}\n$`, "run -q --name a -- true": "^$", "run -q -o json -- true": "^hello\n$"} {
		a, out, stderr := apptest.New()
		home := t.TempDir()
		a.Getenv = func(string) string { return home }
		a.Launchers["local"] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
			return &apptest.Launcher{Output: "hello\n"}, nil
		}
		code := a.Execute(t.Context(), verbs, strings.Fields(args))
		if code != 0 || !regexp.MustCompile(want).MatchString(stderr.String()) || want != "^hello\n$" && out.String() != "hello\n" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, out, stderr)
		}
	}
}

// TestKilledDriver: SIGKILL is explained where nothing else explains it.
func TestKilledDriver(t *testing.T) {
	for _, c := range []struct {
		exit runstate.Exit
		told bool
	}{
		{runstate.Exit{Origin: runstate.OriginDriver, Code: 137, Message: "the driver was ended by SIGKILL"}, true},
		{runstate.Exit{Origin: runstate.OriginDriver, Code: 137, Message: "the driver exited with code 137"}, true}, // of a shell
		{runstate.Exit{Origin: runstate.OriginPrepare, Code: 137}, true},
		{runstate.Exit{Origin: runstate.OriginDriver, Code: 137, Message: "the driver was ended by SIGKILL; Ray kills when a node's memory is nearly full: 3GB of 4GB were used"}, false},
		{runstate.Exit{Origin: runstate.OriginDriver, Code: 143}, false},
		{runstate.Exit{Origin: runstate.OriginRayctl, Code: 137}, false},
	} {
		a, _, stderr := apptest.New()
		hintKilled(a.UI, c.exit)
		if told := strings.Contains(stderr.String(), "If nobody killed the driver: the kernel ends a process with SIGKILL when memory runs out"); told != c.told {
			t.Errorf("%+v: %q", c.exit, stderr)
		}
	}
}

// TestFetch: what the driver has left is brought to this machine, whatever its exit code, which stays the command's.
func TestFetch(t *testing.T) {
	left := t.TempDir()
	if err := os.WriteFile(filepath.Join(left, "model"), []byte("weights"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{0, 3} {
		apptest.Run(t, apptest.Tree(NewRun), func() launcher.Launcher { return &apptest.Launcher{Results: left, Code: code} }, []apptest.Line{
			{Args: "run --name a --fetch got -- true", Code: code, Made: "got/model", Err: "copied a:" + left + "/. to ", Calls: []string{"launch a"}},
			{Args: "run --name a --fetch got -- true", Code: code, Files: map[string]string{"got/other": ""}, Made: "got/model", Calls: []string{"launch a"}},
			{Args: "run --name a --fetch got -- true", Code: runstate.CodeUsage, Files: map[string]string{"got": ""}, Err: "--fetch: got is not a directory: give a directory"},
			{Args: "run --name a --fetch got -d -- true", Code: runstate.CodeUsage, Err: "exclude one another"},
		})
	}
	apptest.Run(t, apptest.Tree(NewRun), func() launcher.Launcher { return &apptest.Launcher{Results: t.TempDir()} }, []apptest.Line{
		{Args: "run --name a --fetch got -- true", Err: "--fetch: the driver has left nothing in $RAYCTL_OUTPUT_DIR\n", Calls: []string{"launch a"}},
	})
	apptest.Run(t, apptest.Tree(NewRun), func() launcher.Launcher { return &apptest.Launcher{Results: left + "/nosuch"} }, []apptest.Line{
		{Args: "run --name a --fetch got -- true", Code: runstate.CodeOutputLost, Err: "the results of run a were not fetched: ", Calls: []string{"launch a"}},
	})
}

// TestDryRunOfALivingRun: the same name and spec attach to it.
func TestDryRunOfALivingRun(t *testing.T) {
	apptest.Run(t, apptest.Tree(NewRun), func() launcher.Launcher { return &apptest.Launcher{Waits: true} }, []apptest.Line{
		{Before: "run --name a -d -- true", Args: "run --name a --dry-run -- true", Out: "a lives: run would attach to it\n", Calls: []string{"launch a"}},
	})
}

// TestBeginsAnew: who interrupts a run that has left something is told how the next one goes on; not where it does so already.
func TestBeginsAnew(t *testing.T) {
	for _, c := range []struct {
		cause, left, outputDir string
		want                   bool
	}{
		{runstate.CauseInterrupted, "/state/output", "", true},
		{runstate.CauseInterrupted, "", "", false},
		{runstate.CauseInterrupted, "/shared/out", "/shared/out", false},
		{runstate.CauseSucceeded, "/state/output", "", false},
	} {
		rc := &launcher.Receipt{OutputDir: c.left, Exit: runstate.Exit{Cause: c.cause}}
		if got := beginsAnew(rc, &spec.ClusterSpec{Job: spec.Job{OutputDir: c.outputDir}}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
