package bed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// Places outside the testbed's directory where kubelet, the CNI library and containerd's shims leave files regardless of settings.
const (
	kubeletLinks = "/var/log/containers"
	cniResults   = "/var/lib/cni/results"
)

// Down ends the testbed and removes everything of it from the machine, including leftovers of a killed one. The cache stays. The
// caller holds the lock.
func (b *Bed) Down(ctx context.Context) error {
	began := time.Now()
	there := b.exists()
	var errs []error
	for _, step := range []func(context.Context) error{b.stopManagers, b.endPods, b.endRest, b.removeBridge, b.removeCgroup, b.removeFiles} {
		errs = append(errs, step(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("taking the testbed down: %w", err)
	}
	if there {
		b.log("Kubernetes is gone after %.1f s", time.Since(began).Seconds())
	}
	return nil
}

func (b *Bed) exists() bool {
	_, err := os.Stat(b.Dir)
	return err == nil || len(b.Leftovers()) > 0
}

// stopManagers kills everything but containerd: nothing may start pods any more.
func (b *Bed) stopManagers(ctx context.Context) error {
	return b.kill(ctx, func(p process) bool { return p.part != containerd })
}

// endPods kills the processes in pods, and has containerd remove their containers while it still runs.
func (b *Bed) endPods(ctx context.Context) error {
	if err := b.killCgroup(ctx); err != nil {
		return err
	}
	if b.find(containerd) == nil {
		return nil
	}
	var err error
	if b.programs.Runtime, err = build.DebianRuntime(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := b.removeContainers(ctx); err != nil {
		// The next start removes them.
		b.log("containers are left in the image store: %v", err)
	}
	return nil
}

// endRest kills containerd and its remaining shims.
func (b *Bed) endRest(ctx context.Context) error {
	sockets, _ := filepath.Glob(b.path("c", "s", "io.containerd.runtime.v2.task", "*", "*", "address"))
	for _, file := range sockets {
		if address, err := os.ReadFile(file); err == nil {
			_ = os.Remove(strings.TrimPrefix(string(address), "unix://"))
		}
	}
	if err := b.kill(ctx, func(process) bool { return true }); err != nil {
		return err
	}
	return b.killCgroup(ctx)
}

// kill kills the testbed's processes selected by which, and waits until they have ended.
func (b *Bed) kill(ctx context.Context, which func(process) bool) error {
	return Until(ctx, func(context.Context) error {
		left := slices.DeleteFunc(b.processes(), func(p process) bool { return p.pid == os.Getpid() || !which(p) })
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("%s (process %d) does not end", left[0].part, left[0].pid)
		}
		return nil
	})
}

// cgroupProcesses are the processes of pods.
func (b *Bed) cgroupProcesses() []int {
	var pids []int
	for _, dir := range b.cgroups() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "cgroup.procs" {
				return nil // a removed cgroup has no processes
			}
			text, _ := os.ReadFile(path)
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
			return nil
		})
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func (b *Bed) killCgroup(ctx context.Context) error {
	return Until(ctx, func(context.Context) error {
		left := b.cgroupProcesses()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("%d processes of pods do not end", len(left))
		}
		return nil
	})
}

func (b *Bed) removeBridge(ctx context.Context) error {
	if err := unmountBelow(b.Dir); err != nil {
		return err
	}
	if _, err := net.InterfaceByName(b.name()); err != nil {
		return nil // there is no bridge
	}
	if err := b.nft(ctx, ""); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "ip", "link", "delete", b.name()).CombinedOutput(); err != nil {
		return fmt.Errorf("removing the bridge: %w: %s", err, out)
	}
	return nil
}

func (b *Bed) removeCgroup(ctx context.Context) error {
	return Until(ctx, func(context.Context) error {
		for _, root := range append(b.cgroups(), b.partsCgroup()) {
			var dirs []string
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for _, dir := range slices.Backward(dirs) {
				if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	})
}

func (b *Bed) removeFiles(context.Context) error {
	for _, file := range b.strayFiles() {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(b.Dir)
}

// strayFiles are files of the testbed outside its directory, with that directory in their text or link target.
func (b *Bed) strayFiles() []string {
	var files []string
	results, _ := filepath.Glob(filepath.Join(cniResults, "*"))
	for _, result := range results {
		if text, err := os.ReadFile(result); err == nil && strings.Contains(string(text), b.Dir+"/") {
			files = append(files, result)
		}
	}
	links, _ := filepath.Glob(filepath.Join(kubeletLinks, "*"))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, b.Dir+"/") {
			files = append(files, link)
		}
	}
	return files
}

// Leftovers lists everything of the testbed on the machine except the cache: nothing, after Down.
func (b *Bed) Leftovers() []string {
	var left []string
	for _, p := range b.processes() {
		if p.pid != os.Getpid() {
			left = append(left, fmt.Sprintf("process %d (%s)", p.pid, p.argv[0]))
		}
	}
	for _, pid := range b.cgroupProcesses() {
		left = append(left, fmt.Sprintf("process %d of a pod", pid))
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), " "+b.Dir+"/") {
		left = append(left, "mounts below "+b.Dir)
	}
	if _, err := net.InterfaceByName(b.name()); err == nil {
		left = append(left, "network interface "+b.name())
	}
	for _, path := range append(b.cgroups(), b.partsCgroup(), b.Dir) {
		if _, err := os.Stat(path); err == nil {
			left = append(left, path)
		}
	}
	return append(left, b.strayFiles()...)
}

// KillPods kills all processes in pods, including sandboxes.
func (b *Bed) KillPods(ctx context.Context) error { return b.killCgroup(ctx) }
