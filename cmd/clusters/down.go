package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type downOptions struct {
	config app.ConfigFlags
	names  []string
	labels []string
	owner  string
	all    bool
	now    bool
}

// NewDown is `rayctl down`.
func NewDown(a *app.App) *cobra.Command {
	o := &downOptions{}
	c := &cobra.Command{
		Use:     "down [NAME...] [-l KEY=VALUE] [--all] [--now]",
		Aliases: []string{"delete", "rm"},
		Short:   "End clusters and wait until nothing is allocated",
		Long: "down ends clusters, from whichever directory they were launched, and returns once nothing of them is allocated. A running driver has\n" +
			"job.grace to finish, unless --now is given. It is no error if a cluster has already ended. In a Kubernetes namespace that several users share,\n" +
			"clusters of other users are ended only if you give their NAME or --owner.",
		Example: "  rayctl down\n  rayctl down dev grpo-x1f3a\n" +
			"  rayctl down -l team=rl --now",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.names = args
			return a.Action(func(ctx context.Context) error { return runDown(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	f := c.Flags()
	f.StringArrayVarP(&o.labels, "selector", "l", nil, "end the clusters with this label: `KEY=VALUE`")
	f.BoolVar(&o.all, "all", false, "end all your clusters")
	f.StringVar(&o.owner, "owner", ownerMe, "with --all or -l: those of this `USER`, me, or all")
	f.BoolVar(&o.now, "now", false, "end the drivers without their grace (job.grace)")
	app.Accept(f, "yes", "y", "down never asks")
	return c
}

// runDown ends all chosen clusters in parallel.
func runDown(ctx context.Context, a *app.App, o *downOptions) error {
	clusters, err := chosenClusters(ctx, a, o)
	if err != nil {
		return err
	}
	states := o.states(ctx, a, clusters)
	var living []string
	for i, c := range clusters {
		if !states[i].Phase.Ended() && !states[i].missing {
			living = append(living, string(c.ID))
		}
		switch n := runningJobs(states[i].Status); {
		case n == 1:
			a.UI.Note("cluster %s runs a job, which is stopped", c.ID)
		case n > 1:
			a.UI.Note("cluster %s runs %d jobs, which are stopped", c.ID, n)
		}
	}
	// Said before the first end begins: "Cluster NAME has ended" must not stand above it.
	switch len(living) {
	case 0:
	case 1:
		a.UI.Live("ending "+living[0], time.Now())
	default:
		a.UI.Live(fmt.Sprintf("ending %d clusters", len(living)), time.Now())
	}
	var g errgroup.Group
	for i, c := range clusters {
		g.Go(func() error { return o.end(ctx, a, c, states[i]) })
	}
	return g.Wait()
}

// downState is what is known of a cluster before its end, only for messages: a partly created cluster is ended as well.
type downState struct {
	launcher.Status
	missing bool
}

// states asks for clusters that were chosen one by one; of others nothing is known but that they live.
func (o *downOptions) states(ctx context.Context, a *app.App, clusters []*app.Cluster) []downState {
	out := make([]downState, len(clusters))
	if o.all || len(o.labels) > 0 {
		return out
	}
	var g errgroup.Group
	for i, c := range clusters {
		g.Go(func() error {
			s, err := c.Status(ctx)
			s.Submissions = stillRunning(ctx, a, c, s.Submissions)
			out[i] = downState{s, errors.Is(err, launcher.ErrNotFound)}
			return nil
		})
	}
	_ = g.Wait() // none has an error
	return out
}

// stillRunning leaves out jobs that have ended since the keeper, which looks at them every few seconds, saw them last. Without an answer of the dashboard they are as the keeper
// saw them.
func stillRunning(ctx context.Context, a *app.App, c *app.Cluster, seen []runstate.Submission) []runstate.Submission {
	if len(seen) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	d, err := a.ConnectCluster(ctx, c)
	if err != nil {
		return seen
	}
	defer d.Close()
	jobs, err := d.ListJobs(ctx)
	if err != nil {
		return seen
	}
	return slices.DeleteFunc(slices.Clone(seen), func(s runstate.Submission) bool {
		return slices.ContainsFunc(jobs, func(j dashboardclient.Job) bool { return j.SubmissionID == s.SubmissionID && j.Status.Terminal() })
	})
}

// runningJobs counts the jobs that have not ended.
func runningJobs(s launcher.Status) (n int) {
	if s.Phase.Ended() {
		return 0
	}
	if s.Job != nil && s.Job.SubmissionID != "" && !s.Job.State.Terminal() {
		n++
	}
	for _, j := range s.Submissions {
		if !j.State.Terminal() {
			n++
		}
	}
	return n
}

// end ends one cluster.
func (o *downOptions) end(ctx context.Context, a *app.App, c *app.Cluster, before downState) error {
	err := c.Launcher.Terminate(ctx, c.ID, launcher.End{Cause: runstate.CauseDown, Message: "ended by rayctl down", Now: o.now})
	switch {
	case err != nil && app.Interrupted(ctx):
		a.UI.Note("cluster %s is still ending", c.ID)
		return app.Exit(runstate.CodeInterrupted)
	case err != nil:
		return err
	case before.missing && !a.Launched(string(c.ID)):
		return launcher.NotFound(c.ID)
	case before.Phase.Ended():
		a.UI.Note("Cluster %s had ended at %s; its record is kept", c.ID, terminal.Stamp(a.Err, before.Since))
	default:
		a.UI.Note("Cluster %s has ended", c.ID)
	}
	a.LaunchEnded(string(c.ID))
	return a.ForgetToken(c)
}

// chosenClusters lists the clusters to end.
func chosenClusters(ctx context.Context, a *app.App, o *downOptions) ([]*app.Cluster, error) {
	if len(o.names) > 0 && (o.all || len(o.labels) > 0) {
		return nil, app.UsageError("give only one of them", "names, --all and -l cannot be combined")
	}
	if o.owner != ownerMe && !o.all && len(o.labels) == 0 {
		return nil, app.UsageError("add --all or -l", "--owner needs --all or -l, of whose clusters it chooses those of one owner")
	}
	if len(o.names) == 0 && !o.all && len(o.labels) == 0 {
		c, err := a.Find(ctx, app.FindOptions{Config: &o.config, HowToName: "Choose one by its NAME, or all of yours with --all"})
		if errors.Is(err, launcher.ErrNotFound) {
			a.UI.Note("there is no cluster of yours")
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []*app.Cluster{c}, nil
	}
	var out []*app.Cluster
	for _, name := range o.names {
		c, err := a.Find(ctx, app.FindOptions{Name: name, Config: &o.config})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) > 0 {
		return out, nil
	}
	return selectedClusters(ctx, a, o)
}

// selectedClusters lists clusters by label, or all.
func selectedClusters(ctx context.Context, a *app.App, o *downOptions) ([]*app.Cluster, error) {
	labels, err := app.Pairs("-l", o.labels)
	if err != nil {
		return nil, err
	}
	c, err := a.Selection(&o.config)
	if err != nil {
		return nil, err
	}
	ls, err := a.SearchedLaunchers(c, "")
	if err != nil {
		return nil, err
	}
	var out []*app.Cluster
	for _, l := range ls {
		found, err := l.List(ctx, launcher.Selector{Labels: labels, All: true})
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			left := !s.Phase.Ended() || s.Due != nil // a dead keeper may leave something behind, and no result
			if s.Ours && left && ownedBy(s, o.owner) {
				out = append(out, &app.Cluster{Launcher: l, ID: launcher.ID(s.Name), Spec: c.Spec})
			}
		}
	}
	if len(out) == 0 {
		if o.all {
			a.UI.Note("there is no cluster of yours")
		} else {
			a.UI.Note("there is no such cluster")
		}
	}
	return out, nil
}
