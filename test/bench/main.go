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
)

// measure is one experiment with one or more rows of the table.
type measure struct {
	name string // for -only
	run  func(context.Context, *bench) ([]row, error)
}

// unchanged is the measure that wants -base.
const unchanged = "unchanged"

// measures in the order of the table. The first one limits its commands' memory: the kernel adds the memory of the
// process that starts a command, so that this process must still be small. The last ones need the machine for
// themselves.
var measures = []measure{
	{"submit", measureSubmit},
	{"jobs", measureJobs},
	{"latency", measureLatency},
	{"lines", measureLines},
	{"longline", measureLongLine},
	{"pack", measurePack},
	{"run", measureRun},
	{"version", measureVersion},
	{unchanged, measureUnchanged},
}

// slurmMeasures are those of -slurm, on private Slurm clusters (Linux).
var slurmMeasures []measure

// kubeMeasures are those of -kuberay, on a private Kubernetes (Linux).
var kubeMeasures []measure

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
	only := flag.String("only", "", "measure only those whose name matches this `REGEXP`: submit jobs latency lines longline pack run version unchanged")
	onSlurm := flag.Bool("slurm", false, "measure on private Slurm clusters instead (make bench-slurm): nodes2 nodes4 nodes8 requests tunnel elastic early warned unchanged")
	onKube := flag.Bool("kuberay", false, "measure on a private Kubernetes instead (make bench-kuberay): life interrupt latency package minute unchanged")
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
	b, err := newBench(ctx, *rayctl, *base, *runs)
	if err != nil {
		return err
	}
	defer b.close()
	if *onKube {
		return b.measureAll(ctx, kubeMeasures, wanted)
	}
	if *onSlurm {
		return b.measureAll(ctx, slurmMeasures, wanted)
	}
	return b.measureAll(ctx, measures, wanted)
}

// measureAll prints the table, even if a measure failed.
func (b *bench) measureAll(ctx context.Context, measures []measure, wanted *regexp.Regexp) error {
	before, begun := loadAverage(), time.Now()
	var rows []row
	var failed []error
	for _, m := range measures {
		if !wanted.MatchString(m.name) || m.name == unchanged && b.base == "" {
			continue
		}
		limited, cancel := context.WithTimeoutCause(ctx, time.Duration(b.runs)*limit, fmt.Errorf("not done within %d times %s", b.runs, limit))
		more, err := m.run(limited, b)
		if limited.Err() != nil {
			err = context.Cause(limited)
		}
		cancel()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
			b.say("%s: %v", m.name, err)
		}
		rows = append(rows, more...)
		if ctx.Err() != nil {
			break
		}
	}
	b.head.stop()
	if len(rows) == 0 {
		return errors.Join(append(failed, errors.New("nothing was measured"))...)
	}
	printTable(os.Stdout, rows)
	fmt.Printf("\nRay %s and rayctl in turns on %s: medians of %d (least to most). Load average %s before, %s after %s.\n",
		rayVersion, machine(), b.runs, before, loadAverage(), time.Since(begun).Round(time.Second))
	return errors.Join(failed...)
}
