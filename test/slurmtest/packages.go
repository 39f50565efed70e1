//go:build linux

package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/test/slurmtest/internal/agent"
)

// release is the source of a Slurm version: Debian suites in order of preference.
type release struct {
	version string
	suites  []string
}

// releases are the available Slurm versions.
var releases = []release{
	{"22.05", []string{"bookworm"}},
	{"24.11", []string{"trixie"}},
	{"26.05", []string{"forky", "sid"}},
}

// packageNames are a cluster's packages. Dependencies are included, down to the C library: the programs never use the
// machine's own libraries, and the machine's own programs never use theirs.
var packageNames = []string{
	"slurmctld", "slurmd", "slurm-client", "slurmrestd", "slurmdbd", "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin",
	"slurm-wlm-mysql-plugin", "munge", "mariadb-server-core", "mariadb-client-core", "iproute2", "openssh-server", "patchelf",
}

// clientPrograms are on PATH inside the cluster.
var clientPrograms = []string{
	"sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue",
	"sreport", "srun", "sshare", "sstat", "strigger",
}

// daemonPrograms are started by the testbed; those marked with ? may be missing in a suite.
var daemonPrograms = []string{
	"ip", "mariadb", "mariadbd", "munged", "my_print_defaults", "resolveip", "slurmctld", "slurmd", "slurmdbd", "slurmrestd",
	"slurmstepd", "sshd", "?sshd-auth", "?sshd-session",
}

// prefix is the mount point of a cluster's programs inside its namespaces.
const prefix = agent.Prefix

// cacheRoot is the directory of unpacked Slurm versions.
func cacheRoot() (string, error) {
	if dir := os.Getenv("RAYCTL_TEST_CACHE"); dir != "" {
		return filepath.Join(dir, "slurm"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the test cache: %w", err)
	}
	return filepath.Join(home, ".cache", "rayctl-test", "slurm"), nil
}

// packages returns the directory of an unpacked Slurm.
func packages(ctx context.Context, rel release) (string, error) {
	return unpacked(ctx, rel.version, "Slurm "+rel.version, func(tmp string) error { return assemble(ctx, rel, tmp) })
}

// unpackOptional unpacks the programs that only some Options need.
func (c *Cluster) unpackOptional(ctx context.Context, rel release) (err error) {
	if c.Options.NFS {
		c.nfsRoot, err = nfsPackages(ctx)
	}
	if c.Options.TwoFactors && err == nil {
		c.otpRoot, err = otpPackages(ctx, rel)
	}
	return err
}

// unpacked returns a directory of the cache, which prepare makes at first use as tmp/root. Processes share it: one makes it under a lock, and it gets its name
// only when complete.
func unpacked(ctx context.Context, name, what string, prepare func(tmp string) error) (string, error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("making the test cache: %w", err)
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	lock, err := sharedfile.Acquire(ctx, filepath.Join(root, name+".lock"))
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(root, name+".tmp-")
	if err != nil {
		return "", fmt.Errorf("making the test cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := prepare(tmp); err != nil {
		return "", fmt.Errorf("preparing %s: %w", what, err)
	}
	if err := os.Rename(filepath.Join(tmp, "root"), dir); err != nil {
		return "", fmt.Errorf("preparing %s: %w", what, err)
	}
	return dir, nil
}

// assemble downloads, unpacks and relocates one version into tmp/root.
func assemble(ctx context.Context, rel release, tmp string) error {
	debs, err := download(ctx, tmp, rel.suites, packageNames, rel.version+".")
	if err != nil {
		return err
	}
	root := filepath.Join(tmp, "root")
	if err := unpack(ctx, debs, root); err != nil {
		return err
	}
	return relocate(ctx, root)
}

// unpack extracts packages into a merged-usr tree, without files that our programs do not read.
func unpack(ctx context.Context, debs []string, root string) error {
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	const script = `for deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$ROOT" --no-same-owner --keep-directory-symlink \
	--exclude=./usr/share/doc --exclude=./usr/share/locale --exclude=./usr/share/man --exclude='./usr/share/perl*' \
	--exclude='./usr/lib/*/perl*' --exclude='./usr/lib/*/gconv' --exclude='./var/*' || exit 1; done`
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "unpack"}, debs...)...)
	cmd.Env = append(os.Environ(), "ROOT="+root)
	return runQuiet(cmd)
}

// relocate changes the programs' library paths to prefix, and collects the user's programs in clients/.
func relocate(ctx context.Context, root string) error {
	loaders, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*/ld-linux-*.so.*"))
	if err != nil {
		return err
	}
	if len(loaders) == 0 {
		return errors.New("the packages have no dynamic loader")
	}
	libs := filepath.Dir(loaders[0])
	inside := func(path string) string { return prefix + strings.TrimPrefix(path, root) }
	if err := os.Symlink(inside(libs)+"/slurm-wlm", filepath.Join(root, "plugins")); err != nil {
		return err
	}
	for _, dir := range []string{"clients", "daemons"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for dir, names := range map[string][]string{"clients": clientPrograms, "daemons": daemonPrograms} {
		for _, name := range names {
			name, optional := strings.CutPrefix(name, "?")
			file, err := findProgram(root, name)
			if err != nil && optional {
				continue
			}
			if err != nil {
				return err
			}
			patch := exec.CommandContext(ctx, loaders[0], "--library-path", libs, filepath.Join(root, "usr/bin/patchelf"),
				"--set-interpreter", inside(loaders[0]), "--force-rpath", "--set-rpath", inside(libs)+":"+inside(libs)+"/slurm-wlm", file)
			if err := runQuiet(patch); err != nil {
				return err
			}
			if err := os.Symlink(inside(file), filepath.Join(root, dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// findProgram finds a program of the unpacked tree; Debian adds "-wlm" to some of Slurm's names.
func findProgram(root, name string) (string, error) {
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib/openssh"} {
		for _, file := range []string{name, name + "-wlm"} {
			path := filepath.Join(root, dir, file)
			info, err := os.Lstat(path)
			if err == nil && info.Mode().IsRegular() {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("the packages have no %s", name)
}

func runQuiet(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, lastLines(out, 5))
	}
	return nil
}

func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// findRelease resolves Options.Version.
func findRelease(version string) (release, error) {
	var known []string
	for _, rel := range releases {
		if rel.version == version {
			return rel, nil
		}
		known = append(known, rel.version)
	}
	sort.Strings(known)
	return release{}, errors.New("unknown Slurm version " + version + ": there are " + strings.Join(known, ", "))
}
