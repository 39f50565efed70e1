package slurmbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

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
	return []measure.Row{measure.Compare(fmt.Sprintf("examples/train, preempted with a warning of %s: steps that are made again", warning), count, nil, lost, 1, "")}, nil
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
		"run", "-f", file, "--set", "workers.trainer.replicas=0", "--", "python", "-c", "import sys; print(sys.executable)")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(d.Output.Data)), nil
}

// stepsLost makes one run, whose nodes are taken in its third epoch and given back.
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := s.Command(ctx, "", s.b.Rayctl, "run", "-f", path)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // ends the run, too
	out := new(said)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	if _, err := out.until(ctx, regexp.MustCompile(`(?m)^epoch 2 `)); err != nil {
		return 0, err
	}
	if _, err := s.Submit(ctx, "sleep 1", "--partition=high", "--exclusive", "--nodes="+strconv.Itoa(nodes)); err != nil {
		return 0, err
	}
	restored, err := out.until(ctx, regexp.MustCompile(`steps lost: (\d+)`))
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(restored[1], 64)
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

// until waits for a match, and returns it with its groups.
func (s *said) until(ctx context.Context, want *regexp.Regexp) ([]string, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mutex.Lock()
		text := s.text.String()
		s.mutex.Unlock()
		if found := want.FindStringSubmatch(text); found != nil {
			return found, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: no %q in %s", context.Cause(ctx), want, measure.Tail([]byte(text)))
		}
	}
}
