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
	dir, err := unpacked(ctx, "runtime-debian", debianPackages)
	return Runtime{
		Bin:  filepath.Join(dir, "usr/bin"),
		Runc: filepath.Join(dir, "usr/sbin/runc"),
		CNI:  filepath.Join(dir, "usr/lib/cni"),
	}, err
}

// NFT unpacks nftables' program, and returns its command line.
func NFT(ctx context.Context) ([]string, error) {
	dir, err := unpacked(ctx, "nftables-debian", []string{"nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libxtables12"})
	if err != nil {
		return nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu"))
	if err != nil || len(libraries) == 0 {
		return nil, errors.Join(errors.New("nftables' packages have no libraries"), err)
	}
	return []string{"env", "LD_LIBRARY_PATH=" + libraries[0], filepath.Join(dir, "usr/sbin/nft")}, nil
}

// unpacked is the directory of these packages.
func unpacked(ctx context.Context, name string, packages []string) (string, error) {
	return Once(ctx, name, func(ctx context.Context, tmp string) error {
		download := func() error {
			// apt's own download user has no access to the cache.
			cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)...)
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
		if len(debs) != len(packages) {
			return fmt.Errorf("apt brought %d packages of %d", len(debs), len(packages))
		}
		for _, deb := range debs {
			if err := run(exec.CommandContext(ctx, "dpkg-deb", "-x", deb, tmp)); err != nil {
				return err
			}
		}
		return nil
	})
}
