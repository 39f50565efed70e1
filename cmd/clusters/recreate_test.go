package clusters

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// replaceable records the calls on an existing cluster. It stands for any launcher: the test is about which calls are made, and when.
type replaceable struct {
	launcher.Launcher
	invalid error
	done    []string
}

func (*replaceable) Render(*spec.ClusterSpec) ([]launcher.File, error) { return nil, nil }
func (r *replaceable) Validate(context.Context, *spec.ClusterSpec, launcher.Payload) error {
	return r.invalid
}
func (r *replaceable) Terminate(context.Context, launcher.ID, launcher.End) error {
	r.done = append(r.done, "terminate")
	return nil
}
func (*replaceable) Result(context.Context, launcher.ID) (*launcher.Result, error) {
	st := launcher.Status{Name: "a", Exit: &runstate.Exit{Cause: "down"}, EndedSubmissions: &runstate.EndedSubmissions{Count: 2}}
	return launcher.NewResult(st, launcher.LogInfo{}, nil), nil
}
func (r *replaceable) Forget(context.Context, launcher.ID) error {
	r.done = append(r.done, "forget")
	return nil
}

// TestRecreateKeepsWhatItCannotReplace: the old cluster and its record are removed only if the new launch is not refused, and stay in the history.
func TestRecreateKeepsWhatItCannotReplace(t *testing.T) {
	bad := errors.New("bad")
	s := &spec.ClusterSpec{Name: "a"}
	packed := 0
	for name, c := range map[string]struct {
		invalid, unpacked error
		want              []string
	}{
		"refused by the launcher": {bad, nil, nil},
		"cannot be packed":        {nil, bad, nil},
		"good":                    {nil, nil, []string{"terminate", "forget"}},
	} {
		l := &replaceable{invalid: c.invalid}
		p := &launcher.Payload{Packages: func(context.Context) (*launcher.Packages, error) {
			packed++
			return &launcher.Packages{}, c.unpacked
		}}
		a, _, _ := apptest.New()
		cache := t.TempDir()
		a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": cache}[name] }
		err := replace(t.Context(), a, l, s, p)
		if (err != nil) != (c.want == nil) || !slices.Equal(l.done, c.want) {
			t.Errorf("%s: %v, %v", name, l.done, err)
		}
		receipts, readErr := a.Receipts()
		if readErr != nil {
			t.Fatal(readErr)
		}
		kept, readErr := receipts.All()
		if readErr != nil || len(kept) != len(c.want)/2 || len(kept) > 0 && kept[0].EndedSubmissions.Count != 2 {
			t.Errorf("%s: in the history %+v, %v", name, kept, readErr)
		}
		if err == nil {
			before := packed
			if _, err := p.Packages(t.Context()); err != nil || packed != before {
				t.Errorf("packed again: %v", err)
			}
		}
	}
}

// TestDryRunElsewhere: where the launcher cannot be reached, render shows more.
func TestDryRunElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	for code, want := range map[int]bool{runstate.CodeUnreachable: true, runstate.CodeConfig: true, runstate.CodeSpec: false} {
		a, _, stderr := apptest.New()
		a.Launchers["slurm"] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
			return &replaceable{Launcher: new(apptest.Launcher), invalid: launcher.Fail(code, nil, "", "no")}, nil
		}
		got := a.Execute(t.Context(), verbs, []string{"run", "--dry-run", "--launcher", "slurm", "--", "true"})
		if told := strings.Contains(stderr.String(), "`rayctl render` shows what a launch would create"); got != code || told != want {
			t.Errorf("%d: %d, %s", code, got, stderr)
		}
	}
}
