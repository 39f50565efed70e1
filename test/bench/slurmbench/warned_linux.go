package slurmbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// measureUnchangedOnSlurm compares with an earlier rayctl on four nodes.
func measureUnchangedOnSlurm(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	return b.CompareWithEarlier(ctx, "slurm, 4 nodes", func(ctx context.Context) (first, end float64, err error) {
		run, err := onSlurm(ctx, b, 4, (*slurmSite).rayctlRun)
		return run.toFirstLine(), run.afterLast(), err
	})
}

// warning is how long before the end Slurm announces a preemption.
const warning = 30 * time.Second

// measureWarned preempts examples/train with a warning, and counts the steps that the next attempt makes again.
func measureWarned(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	python, err := trainPython(ctx, b)
	if err != nil {
		return nil, err
	}
	var lost []float64
	err = b.Repeat(ctx, "slurm, a preempted Ray Train run", func(ctx context.Context) error {
		n, err := stepsLost(ctx, b, python)
		lost = append(lost, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []measure.Row{measure.Compare(fmt.Sprintf("examples/train, preempted with a warning of %s: steps lost, by the receipt of the attempt that went on", warning), count, nil, lost, 1, "")}, nil
}

// trainPython is the Python of the environment that rayctl makes for examples/train. It stays in the tests' cache.
func trainPython(ctx context.Context, b *measure.Bench) (string, error) {
	cache, err := raytest.Cache()
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs("examples/train/rayctl.yaml")
	if err != nil {
		return "", err
	}
	d, err := b.Command(ctx, b.Environment("XDG_CACHE_HOME="+filepath.Join(cache, "xdg")), b.Rayctl,
		"run", "-f", file, "--set", "workers.trainer.replicas=1", "--", "python", "-c", "import sys; print(sys.executable)")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(d.Output.Data)), nil
}

// stepsLost makes one run, whose nodes are taken in its third epoch, given back, and taken again.
func stepsLost(ctx context.Context, b *measure.Bench, python string) (lost float64, err error) {
	const nodes = 3
	s, err := newSite(ctx, b, slurmtest.Options{
		Nodes: nodes, Preemption: true, Settings: map[string]string{"PreemptParameters": "send_user_signal"}, Binds: []string{filepath.Dir(filepath.Dir(python))},
		Partitions: []slurmtest.Partition{
			{Name: "main", Default: true, Extra: fmt.Sprintf("PriorityTier=1 PreemptMode=REQUEUE GraceTime=%.0f", warning.Seconds())},
			{Name: "high", Extra: "PriorityTier=20 PreemptMode=OFF"},
		},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	work := s.Dir + "/shared/train"
	if err := os.CopyFS(work, os.DirFS("examples/train")); err != nil {
		return 0, err
	}
	path, err := s.clusterFile(map[string]any{
		"apiVersion": "rayctl/v1", "launcher": "slurm", "name": "train", "ray": map[string]any{"python": python}, "head": map[string]any{"cpus": 1},
		"workers": []any{map[string]any{"name": "trainer", "replicas": nodes - 1, "cpus": 1, "resources": map[string]any{"trainer": 1}}},
		"slurm":   map[string]any{"exclusive": true},
		"job": map[string]any{"workingDir": work, "entrypoint": `python train.py --epochs 100000 --out ` + s.Dir + "/shared/out",
			"grace": warning.String(), "restarts": map[string]any{"preempted": 1}},
	})
	if err != nil {
		return 0, err
	}
	receipt := s.Dir + "/shared/receipt.json"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := s.Command(ctx, "", s.b.Rayctl, "run", "-f", path, "--receipt", receipt)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // ends the run, too
	out := new(said)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	running, over := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); over(); close(ended) }() // its exit code only shows that it was preempted
	defer func() { cancel(); <-ended }()
	// Ray prefixes the lines of workers. The second preemption ends the run: only then the driver of its last attempt gives its figures.
	for _, reached := range []string{`epoch 2 step`, `steps lost: \d+(?s:.*) epoch \d+ step`} {
		if err := out.until(running, regexp.MustCompile(reached)); err != nil {
			return 0, err
		}
		if _, err := s.Submit(ctx, "sleep 1", "--partition=high", "--exclusive", "--nodes="+strconv.Itoa(nodes)); err != nil {
			return 0, err
		}
	}
	<-running.Done()
	return lostByReceipt(receipt, out)
}

// lostByReceipt returns the figure of the attempt that the first preemption brought about.
func lostByReceipt(path string, out *said) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var receipt launcher.Receipt
	if err := json.Unmarshal(text, &receipt); err != nil {
		return 0, err
	}
	lost, given := receipt.Figures["steps_lost"]
	if receipt.Exit.Cause != runstate.CausePreempted || len(receipt.Attempts) != 2 || !given {
		return 0, fmt.Errorf("the receipt has no steps_lost of a second attempt that was preempted: %s: %s", text, measure.Tail([]byte(out.String())))
	}
	return lost, nil
}

// said is the output of a running command.
type said struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.String()
}

// until waits for a match.
func (s *said) until(ctx context.Context, want *regexp.Regexp) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		text := s.String()
		if want.MatchString(text) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: no %q in %s", context.Cause(ctx), want, measure.Tail([]byte(text)))
		}
	}
}
