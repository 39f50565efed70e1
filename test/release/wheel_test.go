package release

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// wheel is the wheel for a target.
func (s snapshot) wheel(t *testing.T, of target) string {
	t.Helper()
	pattern := map[target]string{
		{"linux", "amd64"}: "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_2_x86_64", {"linux", "arm64"}: "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_2_aarch64",
		{"darwin", "amd64"}: "macosx_10_12_x86_64", {"darwin", "arm64"}: "macosx_11_0_arm64",
	}[of]
	found, err := filepath.Glob(filepath.Join(s.dir, "rayctl-1.2.3.dev*-py3-none-"+pattern+".whl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the wheels of %s: %q, %v", of, found, err)
	}
	return found[0]
}

// TestWheel makes this machine's wheel as a release does, without goreleaser, which takes longer to build than the rest of CI's programs together.
func TestWheel(t *testing.T) {
	needs.RealSystem(t)
	s := snapshot{dir: t.TempDir(), version: "1.2.3-snapshot.1700000000.gabcdef0"}
	binary := filepath.Join(t.TempDir(), "rayctl")
	run(t, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-ldflags", "-s -w -X "+module+"/cmd.Version=v"+s.version, "-o", binary, "./cmd/rayctl")
	run(t, nil, "python3", "scripts/wheel.py", binary, here.String(), s.version, "1700000000", s.dir)
	s.wheel(t, here)
	s.testWheels(t)
}

func (s snapshot) testWheels(t *testing.T) {
	for _, version := range []string{"3.8", "3.13"} {
		t.Run("in Python "+version, func(t *testing.T) { s.testWheel(t, version) })
	}
}

// testWheel installs rayctl from the wheels in dist as README.md says: pip takes this machine's. It uses both the program and the module, which calls it.
func (s snapshot) testWheel(t *testing.T, version string) {
	python := needs.FindPython(t.Context(), version)
	needs.That(t, python != "", "needs Python %s", version)
	venv := t.TempDir()
	run(t, nil, python, "-m", "venv", venv)
	bin := filepath.Join(venv, "bin")
	run(t, nil, filepath.Join(bin, "pip"), "install", "--quiet", "--disable-pip-version-check", "--pre", "--no-index", "--find-links", s.dir, "rayctl")
	if out := run(t, nil, filepath.Join(bin, "rayctl"), "version"); !strings.HasPrefix(out, "rayctl v"+s.version+" (") {
		t.Errorf("rayctl version: %q", out)
	}
	const use = `import rayctl
print(rayctl.binary())
try:
    rayctl.status("nosuch")
except rayctl.SpecError as e:
    print(e.code, e.sentence, e.next_step, sep="|")
`
	home := t.TempDir()
	env := []string{"HOME=" + home, "XDG_STATE_HOME=" + home, "XDG_CACHE_HOME=" + home, "XDG_CONFIG_HOME=" + home, "RAYCTL_BINARY="}
	want := filepath.Join(bin, "rayctl") + "\n65|no cluster named \"nosuch\"|`rayctl ls` shows yours\n"
	if out := run(t, env, filepath.Join(bin, "python"), "-c", use); out != want {
		t.Errorf("the module says %q, want %q", out, want)
	}
	run(t, nil, filepath.Join(bin, "pip"), "uninstall", "--quiet", "--yes", "rayctl")
}
