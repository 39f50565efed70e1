package clusters

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
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
		{NewLs, "ls -a", []string{name, "Provisioning", "WAITING", path, "old", "Gone"}},
		{NewLs, "ls -a -o wide", []string{name, path, "namespace/" + name, strings.Repeat("x", 40), "a.long.user@host.example"}},
		{NewHistory, "history", []string{"old", "package-failed", "python", strings.Repeat("t", 40) + ".py", "1 h"}},
		{NewStatus, "status " + name, []string{"Provisioning", path, name + "-0", "a-long-host.example", "DEAD"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			for _, variable := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
				t.Setenv(variable, t.TempDir())
			}
			text := onTerminal(t, columns, func(a *app.App) {
				a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
					return listing{&apptest.Launcher{}, []launcher.Status{living, ended}}, nil
				}
				if code := a.Execute(t.Context(), apptest.Tree(c.verb), strings.Fields(c.args)); code != 0 {
					t.Errorf("code %d", code)
				}
			})
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > columns {
					t.Errorf("%d columns: %q", n, line)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
		})
	}
}

// onTerminal returns what a command writes to a terminal of so many columns.
func onTerminal(t *testing.T, columns int, run func(a *app.App)) string {
	t.Helper()
	reader, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: uint16(columns)}); err != nil { //nolint:gosec // it is small
		t.Fatal(err)
	}
	var text bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&text, reader) // ends with EIO when the other side is closed
	}()
	a, _, _ := apptest.New()
	a.Out, a.OutTTY = tty, true
	a.Now = func() time.Time { return apptest.Begin.Add(time.Hour) }
	run(a)
	tty.Close()
	<-done
	return text.String()
}
