package build

import (
	"os/exec"
	"path"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/raytest"
)

// The image has the distribution's Python, if this machine has it, every library that it needs, and the collector's threshold.
func TestRayImagesPython(t *testing.T) {
	needs.Program(t, "dpkg", "dpkg")
	p, err := imagePython(t.Context(), raytest.Env(t, raytest.Ray260))
	if err != nil {
		t.Fatal(err)
	}
	if distribution, err := raytest.DistributionPython(t.Context(), p.Version); err != nil || distribution != "" && p.Base != distribution {
		t.Errorf("the image's Python is %s, not %q (%v)", p.Base, distribution, err)
	}
	files := newTree()
	if err := addPython(t.Context(), files, p); err != nil {
		t.Fatal(err)
	}
	if err := addSystem(t.Context(), files, p); err != nil {
		t.Fatal(err)
	}
	program := path.Join(p.Base, "bin", "python"+p.Version)
	out, err := exec.CommandContext(t.Context(), "ldd", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range libraryLine.FindAllStringSubmatch(string(out), -1) {
		if !files.has(m[1]) && !files.has(path.Join("/usr/lib", path.Base(m[1]))) {
			t.Errorf("%s needs %s", program, m[1])
		}
	}
	site := path.Join(rayPrefix, "lib", "python"+p.Version, "site-packages")
	if got := string(files.entries[path.Join(site, raytest.CollectLessFile)].text); got != raytest.CollectLess {
		t.Errorf("%s: %q", raytest.CollectLessFile, got)
	}
}
