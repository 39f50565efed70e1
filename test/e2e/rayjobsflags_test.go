package e2e

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestRayJobsFlags: the flags of `ray job submit` that describe the runtime environment, and the verbs on one job.
func TestRayJobsFlags(t *testing.T) {
	u := sharedCluster(t)
	u.write("code/main.py", "import os, mod, other\nprint(mod.NAME, other.NAME, os.environ['SEED'], sorted(os.listdir()))\n")
	u.write("code/large.bin", "x")
	u.write("mod/__init__.py", "NAME = 'mod'\n")
	u.write("other/__init__.py", "NAME = 'other'\n")
	u.write("env/env.yaml", "working_dir: code\nenv_vars: {SEED: 7}\npy_modules: [mod]\n")
	const printed = "mod other 7 ['main.py']\n"
	flags := []string{"--py-modules", "other", "--", "python", "main.py"}
	if got := u.want(0, append([]string{"submit", "shared", "--runtime-env", "env/env.yaml", "--excludes", "*.bin", "--submission-id", "flags"}, flags...)...).out; got != printed {
		t.Errorf("--runtime-env: %q", got)
	}
	contains(t, "the job", u.want(0, "jobs", "flags", "-c", "shared").out, "flags", "SUCCEEDED", "python main.py")
	contains(t, "waited for", u.want(0, "wait", "shared", "flags").err, "job flags is SUCCEEDED")
	archive, err := os.Create(filepath.Join(u.dir, "code.zip"))
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(archive)
	main, err := w.Create("main.py")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(main, "import os, mod, other\nprint(mod.NAME, other.NAME, os.environ['SEED'], os.listdir())\n")
	if err := errors.Join(w.Close(), archive.Close()); err != nil {
		t.Fatal(err)
	}
	args := []string{"submit", "shared", "--working-dir", "code.zip", "--runtime-env-json", `{"working_dir": "none", "env_vars": {"SEED": "7"}, "py_modules": ["mod"]}`}
	if got := u.want(0, append(args, flags...)...).out; got != printed {
		t.Errorf("a .zip as working directory: %q", got)
	}
	// Some time after its end: on a busy machine Ray may write a job that has just ended into its list again later than delete looks for that.
	u.want(0, "jobs", "delete", "-c", "shared", "flags")
	u.want(65, "jobs", "delete", "-c", "shared", "flags")
}
