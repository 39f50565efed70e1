package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// followed is a job that has ended.
type followed struct {
	*dashboardclient.Job
	notStarted string        // why the driver did not start; "" if it did
	waited     time.Duration // until the driver began
}

// followJob writes a job's output to w until it ends. An interrupt ends only the watching.
func followJob(ctx context.Context, a *app.App, c *app.Connection, id string, w *app.DriverEnd, opts dashboardclient.FollowOptions) (*followed, error) {
	alive, look, stop := c.AwaitEnd(ctx)
	defer stop()
	opts.OnInterrupted = func(err error) {
		if err != nil {
			look()
			a.UI.Note("the dashboard does not answer, retrying: %s", app.Sentence(err))
		}
	}
	if c.Cluster() != nil {
		go app.TellUnmet(alive, a.UI, c.Cluster().Launcher, c.ID())
	}
	waits, submitted, waited := "", a.Now(), time.Duration(0)
	opts.OnStatus = func(j dashboardclient.Job) {
		if waits = j.WaitsFor(); j.Status == dashboardclient.JobPending {
			a.UI.Live(strings.TrimSpace("PENDING: "+terminal.OneLine(j.Message)), a.Now())
			return
		}
		if waited == 0 {
			waited = a.Now().Sub(submitted)
		}
		a.UI.Clear()
	}
	job, err := c.FollowJob(id, opts).Run(alive, w)
	a.UI.Clear()
	if err != nil && errors.Is(context.Cause(alive), launcher.ErrEnded) {
		return nil, launcher.Fail(runstate.CodeLost, err, fmt.Sprintf("`rayctl status %s` shows why", c.Cluster().ID), "cluster %s has ended, and job %s with it", c.Cluster().ID, id)
	}
	if err != nil && app.Interrupted(ctx) && waits != "" {
		a.UI.Note("stopped watching job %s, which is PENDING and waits for: %s. `rayctl logs%s %s -f` shows its output once it runs, `rayctl stop%s %s` stops it", id, waits, c.Flags(), id, c.Flags(), id)
		return nil, app.Exit(runstate.CodeInterrupted)
	}
	if err != nil && app.Interrupted(ctx) {
		a.UI.Note("stopped watching, the job keeps running: `rayctl logs%s %s -f` shows it, `rayctl stop%s %s` stops it", c.Flags(), id, c.Flags(), id)
		return nil, app.Exit(runstate.CodeInterrupted)
	}
	if err != nil {
		return nil, err
	}
	why, err := explainStart(ctx, c, w, job)
	return &followed{job, why, waited}, err
}

// explainStart completes the output of a job that did not start: with Ray's message, which Ray 2.60 writes into the driver's log itself, and with the agents' logs where
// that message does not have the cause. It returns the cause in one line, as the keeper does for a run, or "" if the driver started.
func explainStart(ctx context.Context, c *app.Connection, w *app.DriverEnd, j *dashboardclient.Job) (string, error) {
	if code, own := app.JobCode(j); own || code != runstate.CodeStartFailed {
		return "", nil
	}
	if w.Silent() && j.Message != "" {
		if _, err := fmt.Fprintln(w, j.Message); err != nil {
			return "", err
		}
	}
	logs := c.AgentLogs(ctx, j)
	for _, l := range logs {
		if _, err := fmt.Fprintf(w, "\nThe end of Ray's %s on node %s:\n%s", dashboardclient.AgentLogName, nodeTitle(l.Node), l.Text); err != nil {
			return "", err
		}
	}
	if len(logs) == 1 {
		return errorLine(logs[0].Text), nil
	}
	return errorLine(j.Message), nil // if there are several logs, it is unknown which one is about this job
}

func nodeTitle(n dashboardclient.Node) string { return cmp.Or(n.Name, n.IP, n.ID) }

var (
	words     = regexp.MustCompile(`\w`)
	errorWord = regexp.MustCompile(`\b\w*(Error|Exception)\b: |ERROR: |^error: |No such file`)
)

// errorLine is the most informative line of a traceback or message: the last exception in it, else the last line with words. The keeper's error_line
// (keeper/rayctl_keeper/ray/dashboard.py) does the same for a run.
func errorLine(text string) string {
	last, failure := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if words.MatchString(line) {
			last = line
		}
		if errorWord.MatchString(line) {
			failure = line
		}
	}
	return cmp.Or(failure, last)
}
