package report

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
)

// TestForget: what ended before a moment is removed from the history of this machine, unless it is only tried.
func TestForget(t *testing.T) {
	cache := t.TempDir()
	a, _, _ := apptest.New()
	a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": cache}[name] }
	for name, ended := range map[string]time.Time{"old": apptest.Begin, "new": apptest.Begin.Add(time.Hour)} {
		if err := Remember(a, &launcher.Receipt{Name: name, Ended: ended}); err != nil {
			t.Fatal(err)
		}
	}
	for _, dryRun := range []bool{true, false} {
		removed, err := Forget(a, apptest.Begin.Add(time.Minute), dryRun)
		if err != nil || len(removed) != 1 || removed[0] != (launcher.Collected{What: "receipt", Name: "old", Why: "ended 2026-01-02T03:04:05Z"}) {
			t.Errorf("%+v, %v", removed, err)
		}
		left, err := Read(a)
		if want := map[bool]int{true: 2, false: 1}[dryRun]; err != nil || len(left) != want || left[0].Name != "new" && !dryRun {
			t.Errorf("%+v, %v", left, err)
		}
	}
}
