package clusters

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// goesAway is a launcher whose substrate does not answer once there is a file "away" in the working directory, and lists
// nothing once there is a file "another".
type goesAway struct{ *apptest.Launcher }

func (goesAway) away() error {
	if _, err := os.Stat("away"); err != nil {
		return nil
	}
	return launcher.Fail(runstate.CodeUnreachable, errors.New("refused"), "check the network", "the Kubernetes at x does not answer")
}

func (l goesAway) List(ctx context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	if err := l.away(); err != nil {
		return nil, err
	}
	if _, err := os.Stat("another"); err == nil { // namespace is read
		return nil, nil
	}
	return l.Launcher.List(ctx, sel)
}

func (l goesAway) Watch(ctx context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	if err := l.away(); err != nil {
		return nil, err
	}
	return l.Launcher.Watch(ctx, id)
}

func (l goesAway) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	if err := l.away(); err != nil {
		return nil, err
	}
	return l.Launcher.Result(ctx, id)
}

func (goesAway) Searches(_ context.Context, where string) bool { return where == "here" }

// TestEndedStaysEndedWhileUnreachable: what this machine has seen end stays concluded while the substrate does not answer, with one word about that. Of nothing else an end is claimed.
func TestEndedStaysEndedWhileUnreachable(t *testing.T) {
	const why = "the Kubernetes at x does not answer"
	gone := map[string]string{"away": ""}
	apptest.Run(t, verbs, func() launcher.Launcher { return goesAway{&apptest.Launcher{Code: 3, Output: "no\n"}} }, []apptest.Line{
		{Args: "wait a", Later: gone, Code: runstate.CodeUnreachable, Err: why},
	})
	apptest.Run(t, verbs, func() launcher.Launcher { return goesAway{&apptest.Launcher{Output: "hello\n"}} }, []apptest.Line{
		{Before: "run --name a -- true", Later: gone, Args: "status a", Out: "Ended: the driver succeeded [not reachable: " + why},
		{Before: "run --name a -- true", Later: gone, Args: "status a", Out: "node-seconds", Unsaid: why},
		{Before: "run --name a -- true", Later: gone, Args: "status a -o json", JSON: true, Out: `"cause": "succeeded"`},
		{Before: "run --name a -- true", Later: gone, Args: "status a -w", Out: "the driver succeeded"},
		{Before: "run --name a -- true", Later: gone, Args: "wait a", Err: "this is the end that this machine has seen: " + why},
		{Before: "run --name a -- true", Later: gone, Args: "wait a -o json --junit r.xml", JSON: true, Out: `"cause": "succeeded"`, Made: "r.xml"},
		{Before: "run --name a -- true", Later: gone, Args: "history -o json", JSON: true, Out: `"elsewhere": "local memory"`, Err: "records cannot be listed: " + why},
		{Before: "run --name a -d -- true", Later: gone, Args: "status a", Code: runstate.CodeUnreachable, Err: why},
		{Before: "run --name a -d -- true", Later: gone, Args: "wait a", Code: runstate.CodeUnreachable, Err: why},
		{Args: "status b", Files: gone, Code: runstate.CodeUnreachable, Err: why},
	})
}

// TestRecordsElsewhere: history does not claim of a record that it does not exist where it did not look for it.
func TestRecordsElsewhere(t *testing.T) {
	open := func() launcher.Launcher { return goesAway{&apptest.Launcher{Output: "hello\n"}} }
	apptest.Run(t, verbs, open, []apptest.Line{
		{Before: "run --name a -- true", Args: "history", Out: "succeeded", Unsaid: "elsewhere"},
		{Before: "run --name a -- true", Args: "history -o json", Out: `"record": true`},
		{Before: "run --name a -- true", Later: map[string]string{"another": ""}, Args: "history", Out: "succeeded",
			Err: "the records of 1 of them were not looked for, because they are elsewhere (local memory)", Unsaid: "do not exist any more"},
	})
}

// TestNoCache: what has ended is listed where nothing can be kept.
func TestNoCache(t *testing.T) {
	t.Chdir(t.TempDir())
	cache := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(cache, nil, 0o600); err != nil { // no directory can be made below it
		t.Fatal(err)
	}
	a, out, said := apptest.New()
	a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": cache}[name] }
	a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
		return (&apptest.Launcher{}).With("old"), nil
	}
	if code := a.Execute(t.Context(), verbs, []string{"history", "-o", "name", "--launcher", "local"}); code != 0 || out.String() != "old\n" {
		t.Errorf("code %d, %s%s", code, out, said)
	}
}
