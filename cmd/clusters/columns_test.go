package clusters

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// listing is a launcher with these clusters.
type listing struct {
	*apptest.Launcher
	all []launcher.Status
}

func (l listing) List(context.Context, launcher.Selector) ([]launcher.Status, error) {
	return l.all, nil
}

func (l listing) Watch(context.Context, launcher.ID) (<-chan launcher.Status, error) {
	statuses := make(chan launcher.Status, 1)
	statuses <- l.all[0]
	close(statuses)
	return statuses, nil
}

// TestColumns: on a terminal of 80 columns no line of the tables of clusters is longer, and nothing of what was asked for is left out, also with names and words that
// are as long as they may be.
func TestColumns(t *testing.T) {
	const columns = 80
	name := strings.Repeat("a-long-name-", 10)[:spec.MaxNameLength]
	path := "/scratch/" + strings.Repeat("p", 60)
	command := "python " + strings.Repeat("t", 40) + ".py --lr"
	job := func(state runstate.JobState) *runstate.Job {
		return &runstate.Job{SubmissionID: name + "-1", State: state, Entrypoint: command, OutputDir: path}
	}
	head := []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}}
	living := launcher.Status{Name: name, Launcher: localspec.Name, Owner: "a.long.user@host.example", Where: "namespace/" + name, Ours: true, Phase: runstate.Provisioning, Created: apptest.Begin,
		Labels: map[string]string{"team": strings.Repeat("x", 40)}, Groups: head, Job: job(runstate.JobWaiting), Reason: runstate.Reason{Message: "waits for " + path},
		Nodes:    []runstate.Node{{Name: name + "-0", State: runstate.NodeStarting, Host: "a-long-host.example", Message: "no space in " + path}},
		Timeline: []runstate.Event{{At: apptest.Begin, Kind: runstate.EventNode, To: runstate.NodeDead, Message: "no space in " + path}}}
	ended := launcher.Status{Name: "old", Launcher: localspec.Name, Ours: true, Phase: runstate.Gone, Created: apptest.Begin, Since: apptest.Begin.Add(time.Hour), Groups: head, Job: job(runstate.JobFailed),
		Exit: runstate.Ours(runstate.CausePackageFailed, "no space in "+path)}
	for _, c := range []struct {
		verb func(*app.App) *cobra.Command
		args string
		want []string
	}{
		{NewLs, "ls -a", []string{name, "Provisioning", "WAITING", path, "old", "Ended"}},
		{NewLs, "ls -a -o wide", []string{name, path, "namespace/" + name, strings.Repeat("x", 40), "a.long.user@host.example"}},
		{NewHistory, "history", []string{"old", "package-failed", "python", strings.Repeat("t", 40) + ".py", "1 h"}},
		{NewEvents, "events " + name, []string{runstate.EventNode, "DEAD", "no", "space", path}},
		{NewEvents, "events -w " + name, []string{runstate.EventNode, "DEAD", "no space", path}},
		{NewStatus, "status " + name, []string{"Provisioning", path, name + "-0", "a-long-host.example", "DEAD"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			apptest.OwnHome(t)
			text := apptest.OnTerminal(t, columns, func(a *app.App) {
				a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
					return listing{&apptest.Launcher{}, []launcher.Status{living, ended}}, nil
				}
				if code := a.Execute(t.Context(), apptest.Tree(c.verb), strings.Fields(c.args)); code != 0 {
					t.Errorf("code %d", code)
				}
			})
			apptest.Fits(t, text, columns, c.want...)
		})
	}
}

// TestNotesFit: nor is a line of what `run` tells of its progress and its end, where a command that it names stays in one piece.
func TestNotesFit(t *testing.T) {
	const columns = 80
	name := strings.Repeat("a-long-name-", 10)[:spec.MaxNameLength]
	apptest.OwnHome(t)
	t.Chdir(t.TempDir())
	l := &apptest.Launcher{Code: 3, Output: "printed\n"}
	for verb, want := range map[string][]string{
		"run --name " + name + " --set job.entrypoint=false": {"Starting run " + name, name + " failed:", "`rayctl logs " + name + "`"},
		"down nosuch-" + name[:33]:                           {"rayctl: no cluster named", "nosuch-" + name[:33]},
	} {
		text := apptest.OnTerminal(t, columns, func(a *app.App) {
			a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) { return l, nil }
			if code := a.Execute(t.Context(), apptest.Tree(NewRun, NewDown), strings.Fields(verb)); code == 0 {
				t.Error("code 0")
			}
		})
		apptest.Fits(t, text, columns, want...)
	}
}
