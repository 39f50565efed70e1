package kubebench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/portforward"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/test/bench/measure"
)

var rayJobs = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayjobs"}

// measureInterrupt ends a driver by Ctrl-C; the driver ends at once.
func (k *kube) measureInterrupt(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	file, err := k.file(ctx, b, 2)
	if err != nil {
		return nil, err
	}
	var ours []float64
	err = b.Repeat(ctx, "interrupt", func(ctx context.Context) error {
		command := exec.CommandContext(ctx, b.Rayctl, "run", "-f", file, "--on-interrupt", "stop", "--", "sh", "-c", "date +%s.%N >"+shareDir+"/first; exec sleep 600")
		command.Env, command.Dir = b.Environment("KUBECONFIG="+k.kubeconfig), b.Dir
		if err := command.Start(); err != nil {
			return err
		}
		_, err := k.stamp(ctx, "first")
		begun := time.Now()
		if err := errors.Join(err, command.Process.Signal(syscall.SIGINT)); err != nil {
			return err
		}
		gone, err := k.podsGone(ctx)
		ours = append(ours, gone.Sub(begun).Seconds())
		_ = command.Wait() // its exit code only reports the interrupt
		return err
	})
	if err != nil {
		return nil, err
	}
	return []measure.Row{{What: "Ctrl-C while the driver runs to no Ray pod left", Today: "-", Rayctl: measure.Figures(ours, measure.Seconds), Goal: "at most " + measure.Seconds(3), Met: measure.Yes(measure.Median(ours) <= 3)}}, nil
}

// measureLatency follows a driver that prints the time.
func (k *kube) measureLatency(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	file, err := k.file(ctx, b, 0)
	if err != nil {
		return nil, err
	}
	var ours []float64
	err = b.Repeat(ctx, "latency", func(ctx context.Context) error {
		dir, err := b.WorkingDir("clock.py")
		if err != nil {
			return err
		}
		d, err := k.rayctl(ctx, b, "run", "-f", file, "--working-dir", dir, "--", "python", "clock.py")
		if err != nil {
			return err
		}
		return measure.AddLatency(&ours)(d)
	})
	if err != nil {
		return nil, err
	}
	return []measure.Row{{What: "line printed by the driver to line shown, by port-forward", Today: "-", Rayctl: measure.Figures(ours, measure.Seconds), Goal: "at most " + measure.Seconds(0.2), Met: measure.Yes(measure.Median(ours) <= 0.2)}}, nil
}

const packageSize = 100 << 20

// measurePackage compares the upload of a package to the keeper with client-go's own port-forward to the dashboard.
func (k *kube) measurePackage(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	file, err := k.file(ctx, b, 0)
	if err != nil {
		return nil, err
	}
	const name = "bench-package"
	if _, err := k.rayctl(ctx, b, "up", "-f", file, "--name", name); err != nil {
		return nil, err
	}
	path := filepath.Join(b.Dir, "package")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(path, packageSize); err != nil {
		return nil, err
	}
	l := kuberay.New(kuberay.Config{Kubeconfig: k.kubeconfig})
	var raw, ours []float64
	err = b.Repeat(ctx, "package", func(ctx context.Context) error {
		return timed(&raw, path, func(content io.Reader) error { return k.putRaw(ctx, l, name, content) })
	}, func(ctx context.Context) error {
		return timed(&ours, path, func(content io.Reader) error { return putKeeper(ctx, l, name, len(ours), content) })
	})
	_, downErr := k.rayctl(ctx, b, "down", "-f", file, name)
	if err = errors.Join(err, downErr); err != nil {
		return nil, err
	}
	least := 0.8 * measure.Median(raw)
	return []measure.Row{{What: "100 MiB working directory to the keeper (client-go's port-forward to Ray's dashboard)", Today: measure.Figures(raw, rate), Rayctl: measure.Figures(ours, rate), Goal: "at least 0.8 of it: " + rate(least), Met: measure.Yes(measure.Median(ours) >= least)}}, nil
}

func rate(v float64) string { return fmt.Sprintf("%.0f MiB/s", v) }

func timed(to *[]float64, path string, send func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	begun := time.Now()
	err = send(f)
	*to = append(*to, packageSize/float64(1<<20)/time.Since(begun).Seconds())
	return err
}

func putKeeper(ctx context.Context, l *kuberay.Launcher, name string, n int, content io.Reader) error {
	e, err := l.Dial(ctx, launcher.ID(name), launcher.Keeper)
	if err != nil {
		return err
	}
	defer e.Close()
	k := launcher.KeeperClient(e)
	defer k.Close()
	return k.PutPackage(ctx, fmt.Sprintf("package-%d.zip", n), packageSize, content)
}

// putRaw sends the content to Ray's dashboard through a listener of client-go's port-forward.
func (k *kube) putRaw(ctx context.Context, l *kuberay.Launcher, name string, content io.Reader) error {
	e, err := l.Dial(ctx, launcher.ID(name), launcher.Dashboard) // for the token, and the pod's name
	if err != nil {
		return err
	}
	defer e.Close()
	pod := e.Via[strings.LastIndex(e.Via, " ")+1:]
	u := k.core.CoreV1().RESTClient().Post().Resource("pods").Namespace(k.namespace).Name(pod).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(u, k.rest)
	if err != nil {
		return err
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	defer close(stop)
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8265"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return err
	}
	ports, err := f.GetPorts()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("http://127.0.0.1:%d/api/packages/gcs/_ray_pkg_%d.zip", ports[0].Local, time.Now().UnixNano())
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address, content)
	if err != nil {
		return err
	}
	request.ContentLength = packageSize
	request.Header.Set(e.TokenHeader, "Bearer "+e.Token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the dashboard answers %s", answer.Status)
	}
	return nil
}

// measureMinute runs a driver that prints a line each second for a minute, and measures rayctl's resource use.
func (k *kube) measureMinute(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	file, err := k.file(ctx, b, 2)
	if err != nil {
		return nil, err
	}
	var memory, cpu, requests []float64
	err = b.Repeat(ctx, "minute", func(ctx context.Context) error {
		counted, err := k.counted(b)
		if err != nil {
			return err
		}
		defer counted.server.Close()
		command := exec.CommandContext(ctx, b.Rayctl, "run", "-f", file, "--", "sh", "-c", "for i in $(seq 60); do echo $i; sleep 1; done")
		command.Env, command.Dir = b.Environment("KUBECONFIG="+counted.kubeconfig), b.Dir
		said := new(bytes.Buffer)
		command.Stderr = said
		most, err := peak(command)
		if err != nil {
			return fmt.Errorf("rayctl run: %w: %s", err, measure.Tail(said.Bytes()))
		}
		used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
		b.Say("requests: %s", counted)
		memory, cpu, requests = append(memory, most), append(cpu, used.Seconds()), append(requests, float64(counted.total()))
		return nil
	})
	if err != nil {
		return nil, err
	}
	count := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	return []measure.Row{
		{What: "`run` of one minute: client's memory", Today: "-", Rayctl: measure.Figures(memory, measure.Megabytes), Goal: "at most 60 MB", Met: measure.Yes(measure.Median(memory) <= 60e6)},
		{What: "`run` of one minute: client's processor time", Today: "-", Rayctl: measure.Figures(cpu, measure.Seconds), Goal: "at most " + measure.Seconds(0.5), Met: measure.Yes(measure.Median(cpu) <= 0.5)},
		{What: "`run` of one minute: API requests, watches aside", Today: "-", Rayctl: measure.Figures(requests, count), Goal: "at most 30", Met: measure.Yes(measure.Median(requests) <= 30)},
	}, nil
}

// peak runs a command and returns its maximum memory in bytes. The kernel's value at the end would include the memory of the process that
// started it, which is this large one.
func peak(command *exec.Cmd) (most float64, err error) {
	if err := command.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return most, err
		case <-tick.C:
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid)) // it may just have ended
			_, rest, _ := strings.Cut(string(status), "VmHWM:")
			var kib float64
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				most = max(most, kib*1024)
			}
		}
	}
}

// measureUnchanged compares with an earlier rayctl on a cluster of three pods.
func (k *kube) measureUnchanged(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	file, err := k.file(ctx, b, 2)
	if err != nil {
		return nil, err
	}
	return b.CompareWithEarlier(ctx, "kuberay, 1 head and 2 workers", func(ctx context.Context) (first, end float64, err error) {
		return k.rayctlRun(ctx, b, file)
	})
}
