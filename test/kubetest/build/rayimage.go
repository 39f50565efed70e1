package build

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/test/raytest"
)

// The layout of the upstream Ray image: its user, home and Python.
const (
	rayUser   = 1000
	rayGroup  = 100
	rayHome   = "/home/ray"
	rayPrefix = rayHome + "/anaconda3"
)

// python describes the machine's Python environment for an image.
type python struct {
	Venv    string // sys.prefix
	Base    string // sys.base_prefix
	Version string // 3.11
	Ray     string // version of Ray
	Dists   []string
}

const askPython = `import json, sys, importlib.metadata as m
print(json.dumps({"Venv": sys.prefix, "Base": sys.base_prefix, "Version": "%d.%d" % sys.version_info[:2], "Ray": m.version("ray"),
    "Dists": sorted("%s %s" % (d.metadata["Name"], d.version) for d in m.distributions())}))`

func inspectPython(ctx context.Context, interpreter string) (python, error) {
	var p python
	out, err := exec.CommandContext(ctx, interpreter, "-c", askPython).Output()
	if err != nil {
		return p, fmt.Errorf("asking %s for its Ray: %w", interpreter, err)
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, fmt.Errorf("asking %s for its Ray: %w", interpreter, err)
	}
	if _, err := os.Stat(filepath.Join(p.Base, "lib", "python"+p.Version, "os.py")); err != nil {
		return p, fmt.Errorf("the Python below %s has no standard library: %w", p.Base, err)
	}
	return p, nil
}

// RayImage is an image like rayproject/ray, made from a virtual environment with Ray on this machine: its site-packages and its Python, or a faster one of the
// same version (the processes of a Ray node then need a quarter less of a processor to start), under the upstream paths, and the files of the Debian packages that Ray and KubeRay's commands need. It is made anew when
// the environment's packages change.
func RayImage(ctx context.Context, interpreter string) (Image, error) {
	p, err := imagePython(ctx, interpreter)
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256([]byte(p.Venv + p.Base + raytest.CollectLess + strings.Join(systemPackages, " ") + strings.Join(p.Dists, "\n")))
	dir, err := Once(ctx, "image-ray-"+p.Ray+"-"+hex.EncodeToString(sum[:4]), func(ctx context.Context, tmp string) error {
		files := newTree()
		if err := addPython(ctx, files, p); err != nil {
			return err
		}
		if err := addSystem(ctx, files, p); err != nil {
			return err
		}
		return saveImage(tmp, imageConfig{
			User: fmt.Sprintf("%d:%d", rayUser, rayGroup), WorkingDir: rayHome, Cmd: []string{"/bin/bash"},
			Env: []string{
				"PATH=" + rayPrefix + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"HOME=" + rayHome, "LC_ALL=C.UTF-8", "LANG=C.UTF-8", "TZ=UTC",
			},
		}, files)
	})
	if err != nil {
		return Image{}, err
	}
	image, err := loadImage(dir, "docker.io/rayproject/ray:"+p.Ray)
	image.RootRefs = []string{"docker.io/rayproject/ray:" + p.Ray + "-root"}
	return image, err
}

// imagePython is the environment of an interpreter, with the Python that the image gets instead of its own.
func imagePython(ctx context.Context, interpreter string) (python, error) {
	p, err := inspectPython(ctx, interpreter)
	if err != nil {
		return p, err
	}
	faster, err := raytest.DistributionPython(ctx, p.Version)
	p.Base = cmp.Or(faster, p.Base)
	return p, err
}

// addPython adds the interpreter, its standard library without tests, and the environment's packages and scripts.
func addPython(ctx context.Context, files *tree, p python) error {
	lib := path.Join("lib", "python"+p.Version)
	err := files.copyTree(path.Join(rayPrefix, lib), filepath.Join(p.Base, lib), func(rel string, d fs.DirEntry) bool {
		switch rel {
		case "site-packages", "test", "idlelib", "turtledemo", "ensurepip", "EXTERNALLY-MANAGED":
			return true
		}
		return strings.HasPrefix(rel, "config-") || uselessPython(d)
	})
	if err != nil {
		return err
	}
	site := path.Join(lib, "site-packages")
	if err := files.copyTree(path.Join(rayPrefix, site), filepath.Join(p.Venv, site), func(_ string, d fs.DirEntry) bool {
		return uselessPython(d)
	}); err != nil {
		return err
	}
	files.text(path.Join(rayPrefix, site, raytest.CollectLessFile), raytest.CollectLess, 0o644)
	files.link(path.Join(rayPrefix, lib, "dist-packages"), "site-packages") // where Debian's Python looks outside of virtual environments
	if err := addLibPython(files, p); err != nil {
		return err
	}
	if err := addScripts(files, p); err != nil {
		return err
	}
	files.text("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nray:x:1000:100::/home/ray:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n", 0o644)
	files.text("/etc/group", "root:x:0:\nusers:x:100:\nnogroup:x:65534:\n", 0o644)
	files.text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0o644)
	files.dir(rayHome, 0o755)
	files.own(rayHome, rayUser, rayGroup)
	return ctx.Err()
}

func uselessPython(d fs.DirEntry) bool {
	name := d.Name()
	return name == "tests" && d.IsDir() || strings.HasSuffix(name, ".opt-1.pyc") || strings.HasSuffix(name, ".opt-2.pyc") || strings.HasSuffix(name, ".a")
}

// addLibPython adds the interpreter's shared library, if it has one, to a directory where the loader finds it without this
// machine's run path.
func addLibPython(files *tree, p python) error {
	libs, err := filepath.Glob(filepath.Join(p.Base, "lib", "libpython"+p.Version+"*.so*"))
	if err != nil {
		return err
	}
	for _, lib := range libs {
		to := path.Join(rayPrefix, "lib", filepath.Base(lib))
		if err := files.copy(to, lib); err != nil {
			return err
		}
		files.link("/usr/lib/"+filepath.Base(lib), to)
	}
	return nil
}

// addScripts adds bin: the interpreter, and the environment's scripts with this interpreter in their first line.
func addScripts(files *tree, p python) error {
	bin := path.Join(rayPrefix, "bin")
	name := "python" + p.Version
	if err := files.copy(path.Join(bin, name), filepath.Join(p.Base, "bin", name)); err != nil {
		return err
	}
	files.link(path.Join(bin, "python3"), name)
	files.link(path.Join(bin, "python"), name)
	scripts, err := os.ReadDir(filepath.Join(p.Venv, "bin"))
	if err != nil {
		return err
	}
	for _, script := range scripts {
		if !script.Type().IsRegular() {
			continue
		}
		source := filepath.Join(p.Venv, "bin", script.Name())
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		to := path.Join(bin, script.Name())
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		if bytes.HasPrefix(line, []byte("#!"+p.Venv)) {
			files.text(to, "#!"+path.Join(bin, "python")+"\n"+string(rest), 0o755)
			continue
		}
		if err := files.copy(to, source); err != nil {
			return err
		}
	}
	return nil
}
