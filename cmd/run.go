package cmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

type runOptions struct {
	config      configOptions
	command     []string
	disconnect  disconnectFlag
	onInterrupt string
	receipt     string
	detach      bool
	recreate    bool
	output      output
}

func newRun(a *App) *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run [-f FILE] [flags] [-- COMMAND...]",
		Short: "Run one job on a cluster of its own, from launch to release",
		Long: "run launches the cluster of the cluster file, submits the job once every node is there, shows the driver's output on stdout, exits with\n" +
			"the driver's exit code (128+signal), and leaves nothing allocated. COMMAND replaces job.entrypoint.\n\n" +
			"The run belongs to its keeper, not to this process: if this process is killed, the run goes on, and `rayctl logs -f NAME` shows it again.\n" +
			"--name makes the command repeatable: while the cluster or its record exists, the same command attaches to it or shows how it ended.",
		Example: "  rayctl run -- python train.py --lr 0.1\n" +
			"  rayctl run -f examples/grpo/rayctl.yaml\n" +
			"  rayctl run --name nightly-42 --receipt receipt.json -- python train.py\n" +
			"  rayctl run --workers 4 --cpus-per-worker 8 --working-dir . --detach -- python train.py",
		Args: atMost(0, "no arguments before --"),
		RunE: func(c *cobra.Command, args []string) error {
			_, o.command = splitDash(c, args)
			return runRun(c.Context(), a, o)
		},
	}
	o.config.addSpec(c)
	f := c.Flags()
	o.disconnect.add(c, "2m if CI=true and not --detach, else never")
	f.StringVar(&o.onInterrupt, "on-interrupt", onInterruptAsk, "what Ctrl-C and SIGTERM do: stop or detach (default: stop; Ctrl-C on a terminal asks)")
	f.StringVar(&o.receipt, "receipt", "", "write the receipt as JSON to this `FILE`")
	f.BoolVarP(&o.detach, "detach", "d", false, "return once the launch is committed, and print the run's name")
	f.BoolVar(&o.recreate, "recreate", false, "with --name: replace the cluster or record of that name")
	o.output.add(c, formatJSON, formatYAML, formatName)
	return c
}

// runRun takes one job through its whole life.
func runRun(ctx context.Context, a *App, o *runOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, l, err := a.loadRun(o)
	if err != nil {
		return err
	}
	payload, err := a.payload(c.Spec, "rayctl run")
	if err != nil {
		return err
	}
	if payload.EndOnDisconnect, err = o.disconnect.value(a, !o.detach); err != nil {
		return err
	}
	name := c.Spec.Name
	a.ui.note("%s: run %s", c.Reason, a.ui.paint(bold, name))
	a.hintShell(o.command)
	a.notePackages(c.Spec)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.recreate {
		if err := a.replace(ctx, l, c.Spec, &payload); err != nil {
			return err
		}
	}
	watch := a.newWatcher()
	outcome, err := launcher.Run(ctx, l, c.Spec, payload, launcher.RunOptions{
		Stdout: a.ui.output(), OnStatus: watch.see, Actions: a.watchInterrupts(ctx, o.onInterrupt),
		OnRefused: a.refused(c.Spec), Detach: o.detach, Logger: a.logger(),
	})
	if errors.Is(err, launcher.ErrEnded) && o.config.exactName() != "" {
		outcome, err = a.recorded(ctx, l, c.Spec, err)
	}
	if err != nil {
		return err
	}
	return a.finishRun(o, outcome)
}

func (o *runOptions) validate() error {
	if !slices.Contains([]string{onInterruptAsk, onInterruptStop, onInterruptDetach}, o.onInterrupt) {
		return usageError("it takes stop or detach", "--on-interrupt: %q is unknown", o.onInterrupt)
	}
	if o.recreate && o.config.exactName() == "" {
		return usageError("give --name, without which every run is new", "--recreate replaces nothing")
	}
	if o.receipt != "" {
		if _, err := os.Stat(filepath.Dir(o.receipt)); err != nil {
			return launcher.Fail(runstate.CodeConfig, err, "make its directory first", "--receipt: %v", err)
		}
	}
	return o.output.validate()
}

// loadRun reads the configuration, adds the command line's job, and names the run.
func (a *App) loadRun(o *runOptions) (*config.Loaded, launcher.Launcher, error) {
	command, err := entrypoint(o.command)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.load(&o.config, config.Options{Entrypoint: command})
	if err != nil {
		return nil, nil, err
	}
	if err := spec.RequireEntrypoint(c.Spec); err != nil {
		return nil, nil, err
	}
	if err := c.ReadJobFiles(); err != nil {
		return nil, nil, err
	}
	if err := startHere(&c.Spec.Job, c.Spec); err != nil {
		return nil, nil, err
	}
	if o.config.exactName() == "" {
		c.Spec.Name = runName(c.Spec.Name)
	}
	l, err := a.launcher(c)
	return c, l, err
}

// recorded shows a run that ended earlier under the name, if it has the same spec.
func (a *App) recorded(ctx context.Context, l launcher.Launcher, s *spec.ClusterSpec, taken error) (*launcher.Outcome, error) {
	r, err := l.Result(ctx, launcher.ID(s.Name))
	if err != nil {
		return nil, err
	}
	if r.SpecHash != spec.Hash(s) {
		return nil, taken
	}
	a.ui.note("run %s ended %s; this is its record", s.Name, stamp(r.Since))
	if err := copyLog(ctx, a.ui.output(), &r.Status, r.OpenLog, 0); err != nil {
		return nil, err
	}
	return &launcher.Outcome{ID: launcher.ID(s.Name), Receipt: launcher.NewReceipt(r), Result: r}, nil
}

// finishRun writes the receipt to the requested places and returns the run's exit code.
func (a *App) finishRun(o *runOptions, outcome *launcher.Outcome) error {
	a.ui.clear()
	if outcome.Detached {
		if o.detach {
			io.WriteString(a.Out, string(outcome.ID)+"\n")
		}
		a.ui.note("run %s goes on without this terminal", outcome.ID)
		a.next("`rayctl logs -f "+string(outcome.ID)+"` follows it", "`rayctl down "+string(outcome.ID)+"` ends it")
		return nil
	}
	rc := outcome.Receipt
	if err := a.remember(rc); err != nil {
		a.logger().Debug("the receipt is not in the history", "error", err)
	}
	if !a.Quiet {
		a.ui.line(clean(strings.TrimSuffix(receiptText(rc), "\n")))
	} else if rc.Exit.Code != 0 && rc.Exit.Origin != "driver" { // with -q this is the only message
		a.ui.warn("rayctl: %s: %s", rc.Name, rc.Exit.Sentence())
	}
	if o.receipt != "" {
		if err := writeReceipt(o.receipt, rc); err != nil {
			return launcher.Fail(cmp.Or(rc.Exit.Code, runstate.CodeConfig), err, "the run itself ended with exit code "+strconv.Itoa(rc.Exit.Code), "the receipt cannot be written: %v", err)
		}
	}
	if o.output.format == formatName {
		io.WriteString(a.Out, rc.Name+"\n")
	}
	if _, err := o.output.structured(a.Out, rc); err != nil {
		return err
	}
	return codeOrNil(rc.Exit.Code)
}
