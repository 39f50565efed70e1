//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Prefix is the mount point of a cluster's programs. Their interpreter and library paths contain it.
const Prefix = "/run/slurm"

// Namespaces are a node's own; the controller has the same, and a user namespace if the user is not root.
const Namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC

// Mounts are the differences of a node's file system from the machine's.
type Mounts struct {
	Packages string            // mounted at Prefix; empty when it is already there
	Keep     []string          // paths that stay visible although a directory above them is replaced
	Open     []string          // directories replaced by empty ones that all users may enter
	Files    map[string]string // file of the machine -> its replacement
}

// Private are the directories that every node has separately.
var Private = []string{"/tmp", "/run", "/dev/shm"}

// apply changes the calling process's mount namespace. A node gets a /proc of its own; the controller keeps the machine's,
// so that programs of the test can run next to it without entering its process namespace.
func (m Mounts) apply(node bool) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making Mounts Private: %w", err)
	}
	kept, err := m.open()
	if err != nil {
		return err
	}
	defer closeAll(kept)
	for _, dir := range append(append([]string{}, Private...), m.Open...) {
		if err := cover(dir); err != nil {
			return err
		}
	}
	if err := m.putBack(kept); err != nil {
		return err
	}
	if err := m.bindFiles(); err != nil {
		return err
	}
	if node {
		if err := mountAt("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
	}
	return nil
}

// open opens the paths that must survive the covering of directories above them.
func (m Mounts) open() (map[string]*os.File, error) {
	kept := map[string]*os.File{}
	paths := map[string]string{Prefix: m.Packages}
	for _, path := range m.Keep {
		paths[path] = path
	}
	for target, source := range paths {
		f, err := os.OpenFile(source, oPath|syscall.O_CLOEXEC, 0)
		if err != nil {
			closeAll(kept)
			return nil, fmt.Errorf("keeping %s: %w", source, err)
		}
		kept[target] = f
	}
	return kept, nil
}

// oPath is O_PATH of open(2), which package syscall lacks.
const oPath = 0x200000

func closeAll(files map[string]*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// putBack binds the kept paths into the new directories.
func (m Mounts) putBack(kept map[string]*os.File) error {
	for target, f := range kept {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := makeMountPoint(target, info.IsDir()); err != nil {
			return fmt.Errorf("keeping %s: %w", target, err)
		}
		if err := mountAt(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return err
		}
	}
	return nil
}

func makeMountPoint(path string, dir bool) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

// bindFiles replaces single files. It follows links, whose targets may be in a directory that is empty now.
func (m Mounts) bindFiles() error {
	for path, source := range m.Files {
		if target, err := os.Readlink(path); err == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			path = target
			if err := makeMountPoint(path, false); err != nil {
				return err
			}
		}
		if _, err := os.Stat(path); err != nil {
			continue // the machine has no such file and does not need it
		}
		if err := mountAt(source, path, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func cover(dir string) error {
	mode := "1777"
	if dir != "/tmp" && dir != "/dev/shm" {
		mode = "755"
	}
	if err := mountAt("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode="+mode); err != nil {
		return err
	}
	if dir == "/run" {
		return os.MkdirAll("/run/sshd", 0o755)
	}
	return nil
}

func mountAt(source, target, fstype string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", source, target, err)
	}
	return nil
}

// ClosedAncestor is the topmost directory above path that some users may not enter, or "".
func ClosedAncestor(path string) string {
	parts := strings.Split(strings.Trim(filepath.Dir(path), "/"), "/")
	for i := range parts {
		dir := "/" + strings.Join(parts[:i+1], "/")
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			return dir
		}
	}
	return ""
}
