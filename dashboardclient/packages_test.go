package dashboardclient_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/test/raytest"
)

// project makes a working directory and a module beside it, with all difficult cases for packages.
func project(t *testing.T) (workingDir, module string) {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"work/main.py":           "import mylib, os\nprint(mylib.NAME, open('data/päckchen.txt').read(), os.path.exists('left-out.bin'), open('link.txt').read(), os.path.isdir('hollow'))\n",
		"work/data/päckchen.txt": "ünïcode", "work/left-out.bin": "x", "work/.rayignore": "*.bin\n", "work/run.sh": "#!/bin/sh\necho executable\n",
		"mylib/__init__.py": "from mylib.inner import NAME\n", "mylib/inner.py": "NAME = 'from the module'\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(root, "work")
	err := errors.Join(os.Chmod(filepath.Join(work, "run.sh"), 0o755), os.Mkdir(filepath.Join(work, "hollow"), 0o755),
		os.Symlink("data/päckchen.txt", filepath.Join(work, "link.txt")))
	if err != nil {
		t.Fatal(err)
	}
	return work, filepath.Join(root, "mylib")
}

func TestPackagesWork(t *testing.T) {
	onEach(t, func(t *testing.T, client *dashboardclient.Client, ctx context.Context) {
		version := strings.TrimPrefix(t.Name(), "TestPackagesWork/")
		work, lib := project(t)
		opts := pack.Options{CacheDir: t.TempDir()}
		directory, err := pack.WorkingDir(ctx, work, opts)
		if err != nil {
			t.Fatal(err)
		}
		module, err := pack.Module(ctx, lib, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, pkg := range []*pack.Package{directory, module} {
			for _, first := range []bool{true, false} {
				uploaded, err := client.UploadPackage(ctx, pkg.URI, pkg.Path, nil)
				if err != nil || uploaded != first {
					t.Fatalf("uploaded %t, first %t: %v", uploaded, first, err)
				}
			}
		}
		command := raytest.Shared(t, version).Python + " main.py"
		want := "from the module ünïcode False ünïcode True\n"
		if version == raytest.Ray260 { // older versions do not restore permissions
			command, want = command+" && ./run.sh", want+"executable\n"
		}
		id, err := client.SubmitJob(ctx, dashboardclient.SubmitRequest{Entrypoint: command, RuntimeEnv: map[string]any{
			"working_dir": directory.URI, "py_modules": []string{module.URI}, "env_vars": map[string]string{"PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		job, err := client.FollowJob(id, dashboardclient.FollowOptions{StripHeader: true}).Run(ctx, &out)
		if err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("the driver printed %q, not %q (%s: %s)", out.String(), want, job.Status, job.Message)
		}
	})
}

func TestUploadIsRepeatedAndReported(t *testing.T) {
	t.Parallel()
	head := raytest.Shared(t, raytest.Ray260)
	proxy := raytest.NewProxy(t, head)
	var puts atomic.Int64
	proxy.Break(func(r *http.Request) raytest.Fault {
		return raytest.Fault{LoseAnswer: r.Method == http.MethodPut && puts.Add(1) == 1}
	})
	client := proxy.Client(t, head)
	path := filepath.Join(t.TempDir(), "p.zip")
	if err := os.WriteFile(path, make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	var sent, total int64
	uploaded, err := client.UploadPackage(t.Context(), "gcs://_ray_pkg_repeated.zip", path, func(s, all int64) { sent, total = s, all })
	if err != nil || !uploaded {
		t.Fatal(uploaded, err)
	}
	if sent != 3<<20 || total != 3<<20 || puts.Load() != 2 {
		t.Errorf("%d of %d bytes reported, %d puts", sent, total, puts.Load())
	}
}

func TestUploadTooLarge(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	path := filepath.Join(t.TempDir(), "p.zip")
	if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, dashboardclient.MaxPackageSize+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UploadPackage(ctx, "gcs://_ray_pkg_large.zip", path, nil); !errors.Is(err, dashboardclient.ErrTooLarge) {
		t.Errorf("one byte too many gives %v", err)
	}
	if err := os.Truncate(path, dashboardclient.MaxPackageSize); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UploadPackage(ctx, "gcs://_ray_pkg_largest.zip", path, nil); err != nil {
		t.Errorf("the largest package: %v", err)
	}
	if _, err := client.PackageExists(ctx, "s3://bucket/x.zip"); err == nil {
		t.Error("a package elsewhere was looked for in the cluster")
	}
}
