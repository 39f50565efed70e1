//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// debianKeyring verifies suites other than the machine's own.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// mirrorEnv names a Debian mirror for machines without one in their own apt configuration.
const mirrorEnv = "RAYCTL_TEST_DEBIAN_MIRROR"

// download fetches packages and what they depend on with a private apt (own lists, own empty dpkg status), from the mirror of the machine's own apt, of the
// first suite where the first package's version begins so. The machine's package state is neither read nor changed.
func download(ctx context.Context, tmp string, suites, names []string, version string) ([]string, error) {
	mirror, err := debianMirror(ctx)
	if err != nil {
		return nil, err
	}
	for _, suite := range suites {
		env, err := privateApt(ctx, filepath.Join(tmp, "apt-"+suite), mirror, suite)
		if err != nil {
			return nil, err
		}
		offered, err := candidate(ctx, env, names[0])
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(offered, version) {
			continue
		}
		args := append([]string{"install", "-y", "--download-only"}, names...)
		if err := runQuiet(aptCommand(ctx, env, "apt-get", args...)); err != nil {
			return nil, err
		}
		return filepath.Glob(filepath.Join(tmp, "apt-"+suite, "cache/archives/*.deb"))
	}
	return nil, fmt.Errorf("the mirror has no %s %s in %s", names[0], version, strings.Join(suites, ", "))
}

var releaseURI = regexp.MustCompile(`'([^']+)/dists/([a-z]+)/InRelease'`)

// debianMirror is the mirror of the machine's own apt configuration.
func debianMirror(ctx context.Context) (string, error) {
	if mirror := os.Getenv(mirrorEnv); mirror != "" {
		return mirror, nil
	}
	out, err := exec.CommandContext(ctx, "apt-get", "--print-uris", "update").Output()
	if err != nil {
		return "", fmt.Errorf("asking apt for its mirrors: %w", err)
	}
	for _, m := range releaseURI.FindAllStringSubmatch(string(out), -1) {
		if strings.HasSuffix(strings.TrimSuffix(m[1], "/"), "debian") {
			return m[1], nil
		}
	}
	return "", fmt.Errorf("apt is configured with no Debian mirror: set %s", mirrorEnv)
}

// privateApt writes a private apt configuration below dir, and reads the suite's lists with it.
func privateApt(ctx context.Context, dir, mirror, suite string) ([]string, error) {
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	options := ""
	if _, err := os.Stat(debianKeyring); err == nil {
		options = "[signed-by=" + debianKeyring + "] "
	}
	files := map[string]string{
		"status":       "",
		"sources.list": "deb " + options + mirror + " " + suite + " main\n",
		"apt.conf": fmt.Sprintf(`Dir::State "%[1]s/state";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "%[1]s/parts";
Dir::Etc::preferencesparts "%[1]s/parts";
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
Binary::apt-get::APT::Keep-Downloaded-Packages "true";
DPkg::Post-Invoke {};
APT::Update::Post-Invoke {};
`, dir),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	env := append(os.Environ(), "APT_CONFIG="+filepath.Join(dir, "apt.conf"), "LC_ALL=C.UTF-8")
	return env, runQuiet(aptCommand(ctx, env, "apt-get", "update"))
}

// candidate is the version of a package that the private apt would install.
func candidate(ctx context.Context, env []string, name string) (string, error) {
	out, err := aptCommand(ctx, env, "apt-cache", "policy", name).Output()
	if err != nil {
		return "", fmt.Errorf("asking apt for the version of %s: %w", name, err)
	}
	_, rest, _ := strings.Cut(string(out), "Candidate: ")
	version, _, _ := strings.Cut(rest, "\n")
	return version, nil
}

func aptCommand(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	return cmd
}
