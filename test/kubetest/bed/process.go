package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Part names one process of the testbed.
type Part string

// The parts that tests stop and start.
const (
	APIServer          Part = "kube-apiserver"
	Controllers        Part = "kube-controller-manager"
	Scheduler          Part = "kube-scheduler"
	Kubelet            Part = "kubelet"
	DNS                Part = "coredns"
	Operator           Part = "kuberay-operator"
	VolcanoScheduler   Part = "vc-scheduler"
	VolcanoControllers Part = "vc-controller-manager"
	KWOK               Part = "kwok"
)

const (
	etcd       Part = "etcd"
	containerd Part = "containerd"
)

// Environment variables of all processes of a testbed. Processes are found by these variables in /proc: no process id is
// stored, so none can be stale.
const (
	dirVariable  = "RAYCTL_KUBE_OWNER"
	partVariable = "RAYCTL_KUBE_PART"
)

// command describes how to run a part.
type command struct {
	argv []string
	env  []string
	// ready reports why the part does not work yet.
	ready func(ctx context.Context) error
}

// process is a running process of the testbed.
type process struct {
	pid  int
	part Part
	argv []string
}

// processes lists the running processes of this testbed, including helpers started by its parts.
func (b *Bed) processes() []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []process
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue
		}
		vars := strings.Split(string(env), "\x00")
		if !slices.Contains(vars, dirVariable+"="+b.Dir) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // a zombie has no environment
		}
		p := process{argv: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		for _, v := range vars {
			if part, ok := strings.CutPrefix(v, partVariable+"="); ok {
				p.part = Part(part)
			}
		}
		all = append(all, p)
	}
	return all
}

// find returns a part's own process, not a child of it.
func (b *Bed) find(part Part) *process {
	for _, p := range b.processes() {
		if p.part == part && filepath.Base(p.argv[0]) == string(part) {
			return &p
		}
	}
	return nil
}

// Running reports whether a part runs.
func (b *Bed) Running(part Part) bool { return b.find(part) != nil }

// start makes a part run with command c and returns when it works. A part with another command is restarted.
func (b *Bed) start(ctx context.Context, part Part, c command) error {
	began := time.Now()
	p := b.find(part)
	if p != nil && !slices.Equal(p.argv, c.argv) {
		if err := b.stop(ctx, part); err != nil {
			return err
		}
		p = nil
	}
	if p == nil {
		pid, err := b.spawn(part, c)
		if err != nil {
			return fmt.Errorf("starting %s: %w", part, err)
		}
		p = &process{pid: pid}
	}
	err := Until(ctx, func(ctx context.Context) error {
		if !p.lives() {
			return permanent{errors.New("it ended")}
		}
		return c.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w; its log ends: %s", part, err, b.tail(part))
	}
	b.log("%s works after %.1f s", part, time.Since(began).Seconds())
	return nil
}

// lives reports whether the process or one of its threads runs: after a kill the first thread may be a zombie while another
// one holds the ports. (The command line is no criterion: it is empty for a moment after a start.)
func (p *process) lives() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	if len(rest) == 0 {
		return false
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.pid))
	return rest[0] != 'Z' && rest[0] != 'X' || len(threads) > 1
}

func (b *Bed) spawn(part Part, c command) (pid int, err error) {
	logFile, err := os.OpenFile(b.LogFile(part), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer logFile.Close()
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // it outlives whoever starts it
	cmd.Dir = b.Dir
	cmd.Env = append([]string{
		"HOME=" + b.Dir, "TMPDIR=" + b.path("tmp"), dirVariable + "=" + b.Dir, partVariable + "=" + string(part),
		"PATH=" + b.programs.Runtime.Bin + ":" + filepath.Dir(b.programs.Runtime.Runc) + ":/usr/sbin:/usr/bin:/sbin:/bin",
	}, c.env...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() { _ = cmd.Wait() }() // reaps it if it ends before this process
	return cmd.Process.Pid, b.weigh(part, cmd.Process.Pid)
}

// stop kills a part and waits until it has ended.
func (b *Bed) stop(ctx context.Context, part Part) error {
	p := b.find(part)
	if p == nil {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping %s: %w", part, err)
	}
	err := Until(ctx, func(context.Context) error {
		if p.lives() {
			return errors.New("it is still there")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stopping %s: %w", part, err)
	}
	return nil
}

// LogFile is where a part writes its log.
func (b *Bed) LogFile(part Part) string { return b.path("logs", string(part)+".log") }

// tail is the end of a part's log, on one line.
func (b *Bed) tail(part Part) string {
	f, err := os.Open(b.LogFile(part))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 2000 {
		_, _ = f.Seek(-2000, io.SeekEnd)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte(" | ")))
}

// permanent is an error that does not go away by waiting.
type permanent struct{ error }

// often is how soon Until checks again, seldom how soon after the first oftenTimes: what takes longer is waited for by many tests at a time, whose
// questions were a fifth of the testbed's processor time.
const (
	often, seldom = 100 * time.Millisecond, 300 * time.Millisecond
	oftenTimes    = 20
)

// Until repeats check until it succeeds or ctx ends; then it returns the last error that check gave before.
func Until(ctx context.Context, check func(ctx context.Context) error) error {
	tick := time.NewTicker(often)
	defer tick.Stop()
	var last error
	for times := 1; ; times++ {
		if times == oftenTimes {
			tick.Reset(seldom)
		}
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // the error of ctx itself explains nothing
		}
		var p permanent
		if errors.As(err, &p) {
			return p.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}
