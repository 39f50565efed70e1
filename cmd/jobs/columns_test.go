package jobs

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// TestColumns: on a terminal of 80 columns no line of the tables of jobs is broken inside a word, and nothing of what was asked for is left out.
func TestColumns(t *testing.T) {
	const columns = 80
	id := strings.Repeat("a-long-name-", 10)[:spec.MaxNameLength] + "-1"
	command := "python train.py" + strings.Repeat(" --with-words some/words", 20)
	message := strings.Repeat("words of Ray ", 20) + strings.Repeat("/scratch", 9)
	for args, parts := range map[string][]string{
		"jobs dev":          {id, "FAILED", "2026-01-02 03:04:05", "python train.py"},
		"jobs dev -o wide":  {id, "FAILED", "2026-01-02 03:04:05", "SUBMISSION", "words of Ray", strings.Repeat("/scratch", 9)},
		"jobs -c dev " + id: {id, "FAILED", "2026-01-02 03:04:05", "words of Ray", "some/words"},
		"submit dev --submission-id " + id + "2 -d -- true": {"`rayctl logs -c dev " + id + "2 -f`"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			apptest.OwnHome(t)
			ray := &apptest.Ray{Code: 1}
			job := ray.Job(id, command)
			job["message"] = message
			ray.Jobs = []map[string]any{job}
			l := (&apptest.Launcher{Ray: ray}).With("dev")
			l.Serve(t)
			text := apptest.OnTerminal(t, columns, func(a *app.App) {
				a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) { return l, nil }
				if code := a.Execute(t.Context(), verbs, strings.Fields(args)); code != 0 {
					t.Errorf("code %d", code)
				}
			})
			apptest.Fits(t, text, columns, parts...)
			if strings.Contains(args, "wide") && strings.Count(text, "some/words") != 20 {
				t.Errorf("a part of the command is missing: %s", text)
			}
		})
	}
}
