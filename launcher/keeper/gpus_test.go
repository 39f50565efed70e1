package keeper_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

// withGPUs is a run on a node with so many GPUs, which may do nothing for some seconds.
func withGPUs(count int) func(*keeper.Orders) {
	return func(o *keeper.Orders) {
		o.Groups[0].GPUs = ptr(float64(count))
		o.Lifetime.IdleGPU = 8
	}
}

// recording is what stands for GPUs: a file with the utilization of each. dir is for the stand-in's own files.
func recording(t *testing.T) (dir string, set func(string)) {
	t.Helper()
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"} {
		t.Setenv(name, "all")
		os.Unsetenv(name)
	}
	dir = t.TempDir()
	return dir, func(percents string) {
		path := filepath.Join(dir, "recording")
		if err := os.WriteFile(path+".new", []byte(percents), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// byNVML has the stand-in of testdata/nvml.c as NVML.
func byNVML(t *testing.T) func(string) {
	t.Helper()
	dir, set := recording(t)
	cc := needs.Program(t, "cc", "gcc")
	out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", fmt.Sprintf("-DRECORDING=%q", filepath.Join(dir, "recording")),
		"-o", filepath.Join(dir, "libnvidia-ml.so.1"), "testdata/nvml.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	return set
}

// measured waits until as many GPU-seconds were measured, which may be more by then, and returns the part that was busy.
func (r *rig) measured(seconds float64) (busy float64) {
	r.t.Helper()
	s := r.state(fmt.Sprintf("%.0f GPU-seconds were measured", seconds), func(s *runstate.State) bool { return len(s.GPUs) == 1 && s.GPUs[0].Seconds >= seconds || saysIdle(s) })
	if g := s.GPUs[0]; g.Node != "head-0" || g.Message != "" || s.Exit != nil || saysIdle(s) {
		r.t.Errorf("%+v, %+v, %+v", g, s.Exit, s.Reason)
	}
	return s.GPUs[0].BusySeconds / s.GPUs[0].Seconds
}

func saysIdle(s *runstate.State) bool { return s.Reason.Code == runstate.ReasonGPUsDoNothing }

// training is a recording of two GPUs in steps of 6 s: both compute, one longer than the other, and then wait for the next batch. They work for 4 of 12 GPU-seconds at 97 %
// and for 2 at 64 %.
func training(steps int) (recording string) {
	for i := range steps {
		recording += fmt.Sprintf("@%d 97 64\n@%d 97 0\n@%d 0 0\n", 6*i, 6*i+2, 6*i+4)
	}
	return recording
}

// TestIdleGPUs: a run whose GPUs are all idle gets a warning, and then ends; one of them that works is enough for it to go on, also if it waits for batches in between.
func TestIdleGPUs(t *testing.T) {
	set := byNVML(t)
	set(training(1000))
	r := newRig(t, "sleep 100000", withGPUs(2)).start(nil)
	r.commit(keeper.Commit{})
	r.state("the driver runs", running)
	const share = (4*.97 + 2*.64) / 12
	if busy := r.measured(40); busy < share-0.15 || busy > share+0.15 {
		t.Errorf("%.2f of the GPU-seconds were busy, want %.2f", busy, share)
	}
	set("1 0")
	told := r.state("it is told", saysIdle)
	if told.Deadlines.IdleGPU == nil || !strings.Contains(told.Reason.Message, "all GPUs have done nothing for 4s: the cluster ends in") {
		t.Errorf("%+v, %+v", told.Reason, told.Deadlines)
	}
	set("@0 1 0\n@1 0 35\n")
	if s := r.state("they are used again", func(s *runstate.State) bool { return !saysIdle(s) }); s.Exit != nil || s.Deadlines.IdleGPU != nil {
		t.Errorf("%+v", s)
	}
	set("0 0")
	end := r.result()
	if e := end.Exit; e.Cause != runstate.CauseIdleGPU || e.Code != runstate.CodeGPUsIdle || e.Message != "all GPUs did nothing for 8s (lifetime.idleGpu)" {
		t.Errorf("%+v", e)
	}
	if g := end.GPUs[0]; g.Count != 2 || g.BusySeconds < 8 || g.Seconds < g.BusySeconds+16 {
		t.Errorf("%+v", g)
	}
}

// TestUnreadGPUs: nothing ends while one GPU cannot be read, and that is reported once. nvidia-smi is asked where there is no NVML.
func TestUnreadGPUs(t *testing.T) {
	_, err := os.Stat("/dev/nvidiactl")
	needs.That(t, err != nil, "this machine has an NVML of its own")
	dir, set := recording(t)
	// As `nvidia-smi --help-query-gpu` describes its answers: a line for each GPU, [N/A] for what it does not have.
	script := "#!/bin/sh\ntest \"$*\" = '--query-gpu=uuid,utilization.gpu --format=csv,noheader,nounits' || exit 2\nfor p in $(cat '" + filepath.Join(dir, "recording") + "'); do echo \"GPU-$p, $p\"; done\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	set("0 [N/A]")
	r := newRig(t, "sleep 20; echo goes on; sleep 100000", withGPUs(2)).start(nil) // longer than they may do nothing
	r.commit(keeper.Commit{})
	r.eventually("the driver has run for so long", func() bool { return r.dir.Committed() && strings.Contains(r.log(), "goes on\n") })
	said := 0
	for _, e := range r.state("it runs", running).Timeline {
		if e.Kind == "gpus" {
			said++
			if !strings.Contains(e.Message, "the GPUs of head-0 are not measured: lifetime.idleGpu ends nothing: NVML has no utilization for 1 of its 2 GPUs") {
				t.Errorf("%+v", e)
			}
		}
	}
	if said != 1 {
		t.Errorf("%d notes", said)
	}
	set("0 0")
	if e := r.result().Exit; e.Cause != runstate.CauseIdleGPU {
		t.Errorf("%+v", e)
	}
}
