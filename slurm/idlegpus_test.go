//go:build linux

package slurm_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// idleGPUs: GPUs of nodes that do nothing end a run, those that Slurm has not given to it do not count. nvidia-smi is a stand-in that prints what
// `nvidia-smi --help-query-gpu` describes: this machine has no GPU.
func (b *bed) idleGPUs(t *testing.T) {
	dir := filepath.Join(b.Cluster.Dir, "shared", "smi")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nprintf 'GPU-%s, %s\\n' a 0 b 1 c 100 d 97\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	with := *b
	with.Env = slices.Clone(b.Env)
	for i, kv := range with.Env {
		if path, found := strings.CutPrefix(kv, "PATH="); found {
			with.Env[i] = "PATH=" + dir + ":" + path
		}
	}
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint, s.Lifetime.IdleGPU = "wastes", "sleep 100000", units.Limit(10*time.Second)
	for i := range s.Workers {
		s.Workers[i].GPUs, s.Workers[i].GPUType = 2, "h100"
	}
	r := with.begin(t, s, launcher.Payload{})
	r.ended(runstate.CodeGPUsIdle, runstate.CauseIdleGPU, "all GPUs did nothing for 10s (lifetime.idleGpu)")
	result, err := r.l.Result(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	receipt := launcher.NewReceipt(result)
	if u := receipt.Usage; len(receipt.GPUs) != 2 || u.MeasuredGPUSeconds < 30 || u.MeasuredBusyGPUSeconds > u.MeasuredGPUSeconds/50 {
		t.Errorf("%+v, %+v", receipt.GPUs, u)
	}
	for _, g := range receipt.GPUs {
		if g.Count != 2 || g.Message != "" {
			t.Errorf("%+v", g)
		}
	}
	r.forgotten()
}
