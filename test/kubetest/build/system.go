package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// systemPackages are the Debian packages in the Ray image; their dependencies are added. KubeRay's start
// commands and probes need bash, grep and wget; Ray needs procps.
var systemPackages = []string{
	"base-files", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "hostname", "libc-bin", "libc6", "libgcc-s1", "libstdc++6",
	"mawk", "netbase", "procps", "sed", "tar", "util-linux", "wget", "ca-certificates",
}

// addSystem adds the packages' files, and further shared libraries that Python's own modules need.
func addSystem(ctx context.Context, files *tree, p python) error {
	packages, err := closure(ctx, systemPackages)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "dpkg", append([]string{"-L"}, packages...)...).Output()
	if err != nil {
		return fmt.Errorf("asking dpkg for the packages' files: %w", err)
	}
	for _, name := range strings.Split(string(out), "\n") {
		if uselessSystem(name) || files.has(name) {
			continue
		}
		if err := files.copy(name, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := files.copy("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/ca-certificates.crt"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files.link("/usr/bin/awk", "mawk")
	return addLibraries(ctx, files, p)
}

func uselessSystem(name string) bool {
	if !strings.HasPrefix(name, "/") || name == "/." {
		return true
	}
	for _, prefix := range []string{"/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/perl", "/usr/lib/x86_64-linux-gnu/perl", "/var/"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// closure returns these packages and all their installed dependencies.
func closure(ctx context.Context, names []string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Pre-Depends},${Depends}\n").Output()
	if err != nil {
		return nil, fmt.Errorf("asking dpkg for the installed packages: %w", err)
	}
	depends := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Split(line, "\t"); len(f) == 3 && strings.HasPrefix(f[0], "ii") {
			depends[f[1]] = f[2]
		}
	}
	var all []string
	seen := map[string]bool{}
	for queue := names; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		list, installed := depends[name]
		if seen[name] || !installed || name == "perl-base" || name == "debconf" {
			continue
		}
		seen[name] = true
		all = append(all, name)
		for _, dep := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '|' }) {
			dep, _, _ = strings.Cut(strings.TrimSpace(dep), " ")
			dep, _, _ = strings.Cut(dep, ":")
			queue = append(queue, dep)
		}
	}
	return all, nil
}

var libraryLine = regexp.MustCompile(`=> (/\S+) \(`)

// addLibraries adds shared libraries of the interpreter and of its own extension modules that are in no package above.
func addLibraries(ctx context.Context, files *tree, p python) error {
	modules, err := filepath.Glob(filepath.Join(p.Base, "lib", "python"+p.Version, "lib-dynload", "*.so"))
	if err != nil {
		return err
	}
	// ldd fails for files that are no dynamic programs, with a message for each; it still prints the resolved ones.
	out, err := exec.CommandContext(ctx, "ldd", append(modules, filepath.Join(p.Base, "bin", "python"+p.Version))...).Output()
	if err != nil && len(out) == 0 {
		return fmt.Errorf("asking ldd for Python's libraries: %w", err)
	}
	for _, m := range libraryLine.FindAllStringSubmatch(string(out), -1) {
		name := m[1]
		if files.has(name) || strings.HasPrefix(name, p.Base) {
			continue
		}
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			return err
		}
		info, err := os.Stat(real)
		if err != nil {
			return err
		}
		files.file(name, real, info.Mode().Perm())
	}
	return nil
}
