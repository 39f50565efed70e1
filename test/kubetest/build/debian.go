package build

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Runtime is a container runtime.
type Runtime struct {
	// Bin has containerd, its shim and ctr; Runc is runc; CNI is the directory of the network plug-ins.
	Bin, Runc, CNI string
}

// debianPackages are unpacked, not installed: the machine's own package state stays unchanged, and nothing is started.
var debianPackages = []string{"containerd", "runc", "containernetworking-plugins"}

// DebianRuntime unpacks containerd, runc and the CNI plug-ins from the machine's Debian packages.
func DebianRuntime(ctx context.Context) (Runtime, error) {
	dir, err := Once(ctx, "runtime-debian", func(ctx context.Context, tmp string) error {
		download := func() error {
			// apt's own download user has no access to the cache.
			cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, debianPackages...)...)
			cmd.Dir = tmp
			return run(cmd)
		}
		if first := download(); first != nil {
			// A fresh machine has no package lists yet.
			if err := run(exec.CommandContext(ctx, "apt-get", "-q", "update")); err != nil {
				return errors.Join(first, err)
			}
			if err := download(); err != nil {
				return err
			}
		}
		debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
		if err != nil {
			return err
		}
		if len(debs) != len(debianPackages) {
			return fmt.Errorf("apt brought %d packages of %d", len(debs), len(debianPackages))
		}
		for _, deb := range debs {
			if err := run(exec.CommandContext(ctx, "dpkg-deb", "-x", deb, tmp)); err != nil {
				return err
			}
		}
		return nil
	})
	return Runtime{
		Bin:  filepath.Join(dir, "usr/bin"),
		Runc: filepath.Join(dir, "usr/sbin/runc"),
		CNI:  filepath.Join(dir, "usr/lib/cni"),
	}, err
}
