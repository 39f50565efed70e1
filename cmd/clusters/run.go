// Package clusters has the verbs on whole clusters: run, up, down, ls, status, extend, gc, doctor and history; what signals do to a run (signals.go), and
// what is written about a run that has ended (reports.go).
package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

type runOptions struct {
	config      app.ConfigFlags
	command     []string
	disconnect  disconnectFlag
	onInterrupt string
	reports     reportFiles
	detach      bool
	recreate    bool
	dryRun      bool
	fetch       string
	rank        int
	output      app.Output
}

// NewRun is `rayctl run`.
func NewRun(a *app.App) *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run [-f FILE] [flags] [SCRIPT.py | -- COMMAND...]",
		Short: "Run one job on a cluster of its own, from launch to release",
		Long: "run launches the cluster that the cluster file describes, submits the job once every node is there, shows the driver's output on stdout, exits\n" +
			"with the driver's exit code (128+signal), and leaves nothing allocated. COMMAND replaces job.entrypoint. SCRIPT.py is run as -- python SCRIPT.py.\n\n" +
			"The keeper, a process beside the cluster, controls the run. If rayctl is killed, the run continues, and `rayctl logs -f NAME` shows it again.\n" +
			"With --name you can repeat the command: while the cluster or its record exists, the same command attaches to the run or shows how it ended.\n" +
			"A driver that is to save before a time limit finds the moment in RAYCTL_ENDS_AT (epoch seconds): then it gets SIGTERM, and job.grace to end by itself.\n" +
			"A line `rayctl-figure NAME=NUMBER` of the driver's own output puts that figure into the receipt and into the report of --junit.\n" +
			"With -o stdout has only the document that -o asks for (json: the receipt, with --detach the run's state), and the driver's output goes to stderr.",
		Example: "  rayctl run -- python train.py --lr 0.1\n" +
			"  rayctl run -f examples/grpo/rayctl.yaml\n" +
			"  rayctl run --prepare 'python load.py' -- python train.py\n" +
			"  rayctl run --workers 4 --each-node -- sh -c 'echo \"rank $RANK of $WORLD_SIZE\"'\n" +
			"  rayctl run --name nightly-42 --junit report.xml -- python train.py\n" +
			"  rayctl run --workers 4 --cpus-per-worker 8 --detach -- python train.py",
		Args: a.AtMost(0),
		RunE: func(c *cobra.Command, args []string) error {
			_, o.command = app.SplitDash(c, args)
			return runRun(c.Context(), a, o)
		},
	}
	o.config.AddSpec(c)
	f := c.Flags()
	o.disconnect.add(c, "2m if CI=true and not --detach, else never")
	f.StringVar(&o.onInterrupt, "on-interrupt", interruptAsk, "what Ctrl-C and SIGTERM do: `ACTION` stop or detach (default: stop; Ctrl-C on a terminal asks)")
	app.Complete(c, "on-interrupt", cobra.FixedCompletions([]string{interruptStop, interruptDetach}, cobra.ShellCompDirectiveNoFileComp))
	o.reports.Add(c)
	f.BoolVarP(&o.detach, "detach", "d", false, "return once the launch is committed, and print the run's name")
	f.BoolVar(&o.recreate, "recreate", false, "with --name: replace the cluster or record of that name")
	f.StringVar(&o.fetch, "fetch", "", "at the end, whatever the exit code, copy the content of RAYCTL_OUTPUT_DIR into `DIR` of this machine")
	f.IntVar(&o.rank, "rank", app.AllRanks, "with --each-node: show the output of rank `N` alone")
	f.Lookup("rank").DefValue = "0" // the help would show -1; it shows no 0
	f.BoolVar(&o.dryRun, "dry-run", false, "only show what would be run, after the checks of a launch; rayctl render shows all that a launch would create")
	c.MarkFlagsMutuallyExclusive("dry-run", "recreate")
	c.MarkFlagsMutuallyExclusive("dry-run", "detach")
	c.MarkFlagsMutuallyExclusive("fetch", "detach")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// runRun takes one job through its whole life.
func runRun(ctx context.Context, a *app.App, o *runOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	began := time.Now().UTC()
	c, l, err := loadRun(a, o)
	if err != nil {
		o.reportUnread(ctx, a, began, err)
		return err
	}
	payload, err := newPayload(a, c.Spec, "rayctl run")
	if err != nil {
		if !o.dryRun {
			refused(ctx, a, o, c.Spec)(err)
		}
		return err
	}
	if payload.EndOnDisconnect, err = o.disconnect.value(a, !o.detach); err != nil {
		return err
	}
	fetch, err := newFetcher(a, l, launcher.ID(c.Spec.Name), o.fetch)
	if err != nil {
		return err
	}
	payload.Fetch = fetch != nil
	if payload.DryRun = o.dryRun; o.dryRun {
		return dryRun(ctx, a, o, l, c, payload)
	}
	name := c.Spec.Name
	noteRun(a, c, earlier(ctx, l, c.Spec, o))
	if a.Quiet && o.config.ExactName() == "" && !o.detach && o.output.Text() { // without which nobody could name the run that this command made
		a.UI.Warn("%s", name)
	}
	noteShared(a, c.Spec)
	a.HintShell(o.command)
	a.NoteUnused(c.Spec, l)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.recreate {
		if err := replace(ctx, a, l, c.Spec, &payload); err != nil {
			return err
		}
	}
	a.RememberLaunch(c)
	shown := app.OfRanks(o.output.Driver(a), o.rank, c.Spec.Job.Prepare != "", c.Spec.Job.Launch.On() && o.output.Text() && a.UI.ColorsOutput())
	watch, output, driver := app.NewWatcher(a.UI), app.NewDriverEnd(shown), &driverGrace{Time: time.Duration(*c.Spec.Job.Grace)}
	watch.Allow(c.Spec.Job.Restarts)
	actions := watchSignals(ctx, a, o.onInterrupt, driver.Now)
	outcome, err := launcher.Run(ctx, l, c.Spec, payload, launcher.RunOptions{
		Stdout: output, OnStatus: func(s launcher.Status) { driver.See(s); watch.See(s); fetch.See(ctx, s) }, Actions: actions,
		OnRefused: refused(ctx, a, o, c.Spec), Detach: o.detach, Logger: a.Logger(),
	})
	if errors.Is(err, launcher.ErrEnded) && o.config.ExactName() != "" {
		outcome, err = recorded(ctx, l, c.Spec, output, err)
	}
	if err != nil {
		return err
	}
	if outcome.Detached {
		unread := readerGone(a.Out)
		if err := answerDetached(ctx, a, o, &app.Cluster{Launcher: l, ID: outcome.ID}); err != nil || !unread {
			return err
		}
		return app.Exit(runstate.CodeOutputLost) // `rayctl run | head` has not succeeded: the run goes on
	}
	a.NoteNoRank(shown, o.rank)
	fetched := fetch.Finish(untilAction(ctx, actions))
	err = answerEnded(ctx, a, o, name, outcome, fetched)
	if beginsAnew(outcome.Receipt, c.Spec) {
		a.UI.Note("what it has left is this run's alone, and the next run begins anew: with --output-dir DIR (job.outputDir) each run has the same directory, and can go on")
	}
	if cause := outcome.Receipt.Exit.Cause; cause == runstate.CauseDriverFailed || cause == runstate.CausePrepareFailed {
		output.HintMissing(a.UI, app.Place{Kept: c.MakesEnvironment()})
		a.HintLeftOut(output.MissingFiles())
	}
	return err
}

// noteRun says that a run begins, or what there is already of its name: s, nil if there is none.
func noteRun(a *app.App, c *config.Loaded, s *launcher.Status) {
	name := c.Spec.Name
	switch {
	case s == nil:
		a.UI.Note("Starting run %s %s (%s)", a.UI.Paint(terminal.Bold, name), c.On(), c.Reason)
	case s.SpecHash != spec.Hash(c.Spec): // the launch refuses the name and says why
	case s.Phase.Ended():
		a.UI.Note("Run %s ended at %s, and this is its record: give another --name for a new run, or --recreate to replace this run%s", name, terminal.Stamp(a.Err, s.Since), keptOutput(c.Spec))
	default:
		a.UI.Note("Run %s exists since %s and is shown again: give another --name for a new run", name, terminal.Stamp(a.Err, s.Created))
	}
}

// beginsAnew reports whether the next run does not have what an interrupted one has left: its output directory is its own.
func beginsAnew(rc *launcher.Receipt, s *spec.ClusterSpec) bool {
	return rc.Exit.Cause == runstate.CauseInterrupted && rc.OutputDir != "" && s.Job.OutputDir == ""
}

// keptOutput is what --recreate does with the results of a run.
func keptOutput(s *spec.ClusterSpec) string {
	if s.Job.OutputDir == "" {
		return " with its output (one with job.outputDir would go on with that)"
	}
	return "; files in job.outputDir stay"
}

// answerEnded accounts for a run that has ended. fetched is why its results were not copied.
func answerEnded(ctx context.Context, a *app.App, o *runOptions, name string, outcome *launcher.Outcome, fetched error) error {
	err := finishRun(ctx, a, o, outcome)
	if fetched != nil && outcome.Receipt.Exit.Code == 0 {
		return launcher.Fail(runstate.CodeOutputLost, fetched, "`rayctl cp "+name+": DIR` copies them as long as they exist", "the results of run %s were not fetched: %v", name, fetched)
	} else if fetched != nil {
		a.UI.Warn("the results of run %s were not fetched: %s", name, app.Sentence(fetched))
	}
	hintKilled(a.UI, outcome.Receipt.Exit)
	return err
}

// untilAction is a context that an interrupt ends, when there is nothing else to stop any more.
func untilAction(ctx context.Context, actions <-chan launcher.Action) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-actions:
		case <-ctx.Done():
		}
	}()
	return ctx
}

// refused returns a function that accounts for a launch that failed before anything was begun.
func refused(ctx context.Context, a *app.App, o *runOptions, s *spec.ClusterSpec) func(error) {
	keep := rememberRefused(a, s)
	return func(err error) {
		if rc := keep(err); rc != nil {
			o.reportRefused(ctx, a, rc)
		}
	}
}

// reportUnread writes what was asked for about a run whose file or command line is refused: CI would otherwise read the report of an earlier run.
func (o *runOptions) reportUnread(ctx context.Context, a *app.App, began time.Time, err error) {
	if o.dryRun || o.reports.Given() == "" {
		return
	}
	s := &spec.ClusterSpec{Name: cmp.Or(o.config.ExactName(), "run")}
	o.reportRefused(ctx, a, refusedReceipt(s, began, err))
}

// reportRefused writes what was asked for about a launch that failed. The command ends with the launch's own error.
func (o *runOptions) reportRefused(ctx context.Context, a *app.App, rc *launcher.Receipt) {
	if err := o.reports.Write(ctx, rc, nil); err != nil {
		a.UI.Warn("%v", err)
	}
}

func (o *runOptions) validate() error {
	if !slices.Contains([]string{interruptAsk, interruptStop, interruptDetach}, o.onInterrupt) {
		return app.UsageError("it takes stop or detach", "--on-interrupt: %q is unknown", o.onInterrupt)
	}
	if o.recreate && o.config.ExactName() == "" {
		return app.UsageError("give --name, without which every run is new", "--recreate has nothing to replace")
	}
	if flag := o.reports.Given(); flag != "" && o.detach {
		return app.UsageError("`rayctl wait "+flag+" FILE` waits for the end of a detached run and writes it", "%s: with --detach there is no end to write about", flag)
	}
	if err := o.reports.Validate(); err != nil {
		return err
	}
	return o.output.Validate()
}

// loadRun reads the configuration, adds the command line's job, and names the run.
func loadRun(a *app.App, o *runOptions) (*config.Loaded, launcher.Launcher, error) {
	command, err := app.Entrypoint(o.command)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.Load(&o.config, config.Options{Entrypoint: command})
	if err != nil {
		return nil, nil, err
	}
	if err := spec.RequireEntrypoint(c.Spec, "run"); err != nil {
		return nil, nil, err
	}
	if err := app.CheckRank(o.rank, "", c.Spec.Job.Launch.On()); err != nil {
		return nil, nil, err
	}
	if err := c.ReadPackages(true); err != nil {
		return nil, nil, err
	}
	if err := c.ReadJobFiles(false); err != nil {
		return nil, nil, err
	}
	if err := a.CheckRun(c, o.command); err != nil {
		return nil, nil, err
	}
	if o.config.ExactName() == "" {
		c.Spec.Name = app.RunName(c.Spec.Name)
	}
	l, err := a.Launcher(c)
	if err != nil {
		return nil, nil, err
	}
	return c, l, app.CheckRanks(c, l)
}

// recorded shows a run that ended earlier under the name, if it has the same spec.
func recorded(ctx context.Context, l launcher.Launcher, s *spec.ClusterSpec, w io.Writer, taken error) (*launcher.Outcome, error) {
	r, err := l.Result(ctx, launcher.ID(s.Name))
	if err != nil {
		return nil, err
	}
	if r.SpecHash != spec.Hash(s) {
		return nil, anotherRun(r, s, taken)
	}
	if err := app.CopyLog(ctx, w, &r.Status, r.OpenLog, 0, 0); err != nil {
		return nil, err
	}
	return &launcher.Outcome{ID: launcher.ID(s.Name), Receipt: launcher.NewReceipt(r), Result: r}, nil
}

// anotherRun is the error for a run whose name a record of another one has.
func anotherRun(r *launcher.Result, s *spec.ClusterSpec, taken error) error {
	difference := "with other settings of the cluster file or of flags"
	switch {
	case r.Job == nil || r.Job.Entrypoint == "":
		difference = "a cluster without a command of its own"
	case driverio.UserCommand(r.Job.Entrypoint) != driverio.UserCommand(s.Job.Entrypoint):
		difference = "with another command: " + terminal.Shorten(driverio.UserCommand(r.Job.Entrypoint), false)
	}
	return launcher.Fail(runstate.CodeSpec, taken, "choose another --name, or replace it with --recreate", "the ended run %s was a different one, %s", s.Name, difference)
}

// answerDetached names the run that goes on: with -o json its state, so that a script reads the name there.
func answerDetached(ctx context.Context, a *app.App, o *runOptions, c *app.Cluster) error {
	a.UI.Clear()
	if o.output.Format == app.FormatJSON || o.output.Format == app.FormatYAML {
		s, err := c.Status(ctx)
		if err != nil { // the run is committed, whoever answers now
			s = launcher.Status{Name: string(c.ID), Launcher: c.Launcher.Name(), Ours: true, Unreachable: app.Sentence(err)}
		}
		if _, err := o.output.Structured(a.Out, s); err != nil {
			return err
		}
	} else if o.detach || o.output.Format == app.FormatName {
		fmt.Fprintln(a.Out, c.ID)
	}
	if readerGone(a.Out) { // `rayctl run | head`
		a.UI.Note("The reader of the output (stdout) has ended. Detached; %s keeps running", c.ID)
	} else {
		a.UI.Note("Detached; %s keeps running", c.ID)
	}
	a.Next("`rayctl logs -f "+string(c.ID)+"` follows it", "`rayctl down "+string(c.ID)+"` ends it", "`rayctl cp "+string(c.ID)+": DIR` copies its results")
	return nil
}

// finishRun writes the receipt to the requested places and returns the run's exit code.
func finishRun(ctx context.Context, a *app.App, o *runOptions, outcome *launcher.Outcome) error {
	a.UI.Clear()
	rc := outcome.Receipt
	a.RememberEnd(rc)
	if !a.Quiet {
		a.UI.Line(terminal.Clean(strings.TrimSuffix(receiptText(rc), "\n")))
	} else if rc.Exit.Code != 0 && rc.Exit.Origin != "driver" { // with -q this is the only message
		a.UI.Warn("rayctl: %s %s", rc.Name, rc.Exit.Sentence())
	}
	return answer(ctx, a, &o.reports, &o.output, outcome)
}
