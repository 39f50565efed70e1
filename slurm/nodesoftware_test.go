//go:build linux

package slurm_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scratchOfJobs are settings of a site that gives each job a directory of its own on the nodes, which TMPDIR names, while the flag is there.
func scratchOfJobs(t *testing.T) (settings map[string]string, flag string) {
	t.Helper()
	dir := t.TempDir()
	flag, settings = filepath.Join(dir, "flag"), map[string]string{"TaskProlog": filepath.Join(dir, "prolog"), "Epilog": filepath.Join(dir, "epilog")}
	const of = "/tmp/of-job-$SLURM_JOB_ID"
	for setting, text := range map[string]string{
		"TaskProlog": "[ ! -e " + flag + " ] || { mkdir -p " + of + " && echo export TMPDIR=" + of + "; }", "Epilog": "exec /bin/rm -rf " + of,
	} {
		if err := os.WriteFile(settings[setting], []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return settings, flag
}

// modulesPath lists the directories of a site's modules. Debian's package environment-modules defines the function in /etc/profile.d, as RHEL's does.
const modulesPath = "/etc/environment-modules/modulespath"

// realModules gives the site a module of environment-modules that brings the same Python, and returns its name and the bed of a user whose jobs have the function
// by /etc/profile alone.
func (b *bed) realModules(t *testing.T) (name string, user *bed) {
	t.Helper()
	dir := filepath.Join(b.Cluster.Dir, "shared", "modules")
	file := filepath.Join(dir, "files", "site-python", "3.11")
	text := "#%Module1.0\nprepend-path PATH {" + dir + "/bin}\nprepend-path LD_LIBRARY_PATH {" + dir + "/lib}\nsetenv SITE_MODULE [module-info name]\n"
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644), b.Change(modulesPath, dir+"/files\n"))
	if err != nil {
		t.Fatal(err)
	}
	other := *b
	other.Env = slices.DeleteFunc(slices.Clone(b.Env), func(v string) bool { return strings.HasPrefix(v, "BASH_ENV=") })
	return "site-python/3.11", &other
}

// modules makes a module function, whose singularity has the runtime and a Python that finds its library only by LD_LIBRARY_PATH, as one that was
// configured with --enable-shared, and prints ld.so's error without it. It returns the file that defines it.
func (b *bed) modules(t *testing.T) string {
	dir := filepath.Join(b.Cluster.Dir, "shared", "modules")
	define := `module() {
	export LOADED="$LOADED$* "
	case "$*" in *singularity*) export PATH="` + dir + `/bin:$PATH" LD_LIBRARY_PATH="` + dir + `/lib" ;; esac
	echo Loading "$@"
}
`
	python := `#!/bin/sh
case ":$LD_LIBRARY_PATH:" in *:` + dir + `/lib:*) exec python3 "$@" ;; esac
echo "$0: error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file: No such file or directory" >&2
exit 127
`
	for name, text := range map[string]string{"/define.sh": define, "/bin/site-python": python} {
		if err := os.WriteFile(dir+name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/define.sh"
}
