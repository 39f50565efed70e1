package kuberay_test

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// idleSMI makes an nvidia-smi whose GPU does nothing: the node's GPUs are only a number, and the image has no library of NVIDIA's.
const idleSMI = `mkdir /tmp/smi
printf '#!/bin/sh\necho "GPU-1, 0"\n' > /tmp/smi/nvidia-smi
chmod +x /tmp/smi/nvidia-smi
PATH=/tmp/smi:$PATH
`

// TestIdleGPUsOfPods: a run whose GPUs do nothing is ended, and the receipt has what was measured in the pod.
func TestIdleGPUsOfPods(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("wastes", "echo begun; exec sleep 100000")
	s.Head.GPUs, s.Setup, s.Lifetime.IdleGPU = 1, idleSMI, units.Limit(10*time.Second)
	r := b.begin(t, b.l, s)
	e := r.wantEnd(t, runstate.CauseIdleGPU, runstate.CodeGPUsIdle, "begun\n")
	if e.Message != "all GPUs did nothing for 10s (lifetime.idleGpu)" {
		t.Errorf("%+v", e)
	}
	// The pod begins to measure before Ray joins, from when on the node counts as granted: seconds on a busy machine.
	if u := r.outcome.Receipt.Usage; u.GPUs != 1 || u.GPUSeconds < 9 || u.MeasuredGPUSeconds < 9 || u.MeasuredGPUSeconds > u.GPUSeconds+10 || u.MeasuredBusyGPUSeconds != 0 {
		t.Errorf("%+v", u)
	}
	if left := b.left(t, r.id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
