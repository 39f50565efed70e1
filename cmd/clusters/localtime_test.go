package clusters

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// utc matches a time as scripts get it.
var utc = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestLocalTime: on a terminal times are those of the user's clock, elsewhere those that scripts read.
func TestLocalTime(t *testing.T) {
	zone := time.Local
	time.Local = time.FixedZone("Kathmandu", 5*3600+45*60)
	t.Cleanup(func() { time.Local = zone })
	later := apptest.Begin.Add(3 * time.Hour)
	living := launcher.Status{Name: "dev", Launcher: localspec.Name, Ours: true, Phase: runstate.Ready, Created: apptest.Begin, Since: apptest.Begin, Deadlines: runstate.Deadlines{Max: &later},
		Timeline: []runstate.Event{{At: apptest.Begin, Kind: runstate.EventPhase, To: "Ready"}}}
	ended := launcher.Status{Name: "old", Launcher: localspec.Name, Ours: true, Phase: runstate.Gone, Created: apptest.Begin, Since: apptest.Begin.Add(time.Hour), Exit: runstate.Ours(runstate.CauseSucceeded, "")}
	for _, c := range []struct {
		args          string
		first         launcher.Status
		local, script string // "": it shows how long ago
	}{
		{"status dev", living, "2026-01-02 11:49:05", "2026-01-02T06:04:05Z"},
		{"status -v dev", living, "2026-01-02 11:49:05", "2026-01-02T06:04:05Z"},
		{"status old", ended, "2026-01-02 09:49:05", "2026-01-02T04:04:05Z"},
		{"ls -a", living, "", ""},
		{"ls -a -o wide", living, "", ""},
		{"history -o wide", living, "2026-01-02 09:49:05", "2026-01-02T04:04:05Z"},
		{"events dev", living, "2026-01-02 08:49:05", "2026-01-02T03:04:05Z"},
	} {
		t.Run(c.args, func(t *testing.T) {
			apptest.OwnHome(t)
			t.Chdir(t.TempDir())
			run := func(a *app.App) {
				a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
					return listing{&apptest.Launcher{}, []launcher.Status{c.first, living, ended}}, nil
				}
				if code := a.Execute(t.Context(), apptest.Tree(NewStatus, NewLs, NewHistory, NewEvents), strings.Fields(c.args)); code != 0 {
					t.Errorf("code %d", code)
				}
			}
			if text := apptest.OnTerminal(t, 200, run); !strings.Contains(text, c.local) || utc.MatchString(text) || c.local == "" && !strings.Contains(text, "1 h") {
				t.Errorf("on a terminal:\n%s", text)
			}
			a, out, _ := apptest.New()
			a.Now = func() time.Time { return apptest.Begin.Add(time.Hour) }
			if run(a); !strings.Contains(out.String(), c.script) || strings.Contains(out.String(), "2026-01-02 ") {
				t.Errorf("elsewhere:\n%s", out)
			}
		})
	}
}

// TestHistoryWithoutCache: the records are listed where no cache can be made.
func TestHistoryWithoutCache(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"/proc/none", "/proc/version"} {
		a, out, said := apptest.New()
		a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": dir}[name] }
		a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
			return new(apptest.Launcher).With("old"), nil
		}
		if code := a.Execute(t.Context(), apptest.Tree(NewHistory), []string{"history", "-o", "name", "--launcher", "local"}); code != 0 || out.String() != "old\n" {
			t.Errorf("%s: code %d, %q, %s", dir, code, out, said)
		}
	}
}
