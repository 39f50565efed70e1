// Command bench measures rayctl and Ray's own command line on this machine, in alternate runs, and
// prints the figures as a Markdown table (make bench).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/test/bench/measure"
)

// ofSlurm and ofKubernetes are the measures of -slurm and -kuberay (Linux).
var ofSlurm, ofKubernetes = func() []measure.Measure { return nil }, func() []measure.Measure { return nil }

// limit is how long one measure may take for each of its runs.
const limit = 20 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	runs := flag.Int("n", 5, "runs of each side")
	only := flag.String("only", "", "measure only those whose name matches this `REGEXP`: submit jobs latency lines longline pack run ranks install version unchanged")
	slurm := flag.Bool("slurm", false, "measure on private Slurm clusters instead (make bench-slurm): nodes2 nodes4 nodes8 requests tunnel elastic early warned ranks unchanged")
	kube := flag.Bool("kuberay", false, "measure on a private Kubernetes instead (make bench-kuberay): life interrupt latency package minute elastic early unchanged")
	rayctl := flag.String("rayctl", "bin/rayctl", "the `PROGRAM` to measure")
	base := flag.String("base", "", "an earlier rayctl, the `PROGRAM` with which \"unchanged\" compares; without it that is not measured")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if *runs < 1 {
		return errors.New("-n: at least one run")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	b, err := measure.New(ctx, *rayctl, *base, *runs)
	if err != nil {
		return err
	}
	defer b.Close()
	all := measure.Local()
	switch {
	case *kube:
		all = ofKubernetes()
	case *slurm:
		all = ofSlurm()
	}
	return measureAll(ctx, b, all, wanted)
}

// measureAll prints the table, even if a measure failed.
func measureAll(ctx context.Context, b *measure.Bench, measures []measure.Measure, wanted *regexp.Regexp) error {
	before, begun := measure.LoadAverage(), time.Now()
	var rows []measure.Row
	var failed []error
	for _, m := range measures {
		if !wanted.MatchString(m.Name) || m.Name == measure.Unchanged && b.Base == "" {
			continue
		}
		limited, cancel := context.WithTimeoutCause(ctx, time.Duration(b.Runs)*limit, fmt.Errorf("not done within %d times %s", b.Runs, limit))
		more, err := m.Run(limited, b)
		if limited.Err() != nil {
			err = context.Cause(limited)
		}
		cancel()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.Name, err))
			b.Say("%s: %v", m.Name, err)
		}
		rows = append(rows, more...)
		if ctx.Err() != nil {
			break
		}
	}
	b.Head.Stop()
	if len(rows) == 0 {
		return errors.Join(append(failed, errors.New("nothing was measured"))...)
	}
	measure.PrintTable(os.Stdout, rows)
	fmt.Printf("\nRay %s and rayctl in turns on %s: medians of %d (least to most). Load average %s before, %s after %s.\n",
		measure.RayVersion, measure.Machine(), b.Runs, before, measure.LoadAverage(), time.Since(begun).Round(time.Second))
	return errors.Join(failed...)
}
