package workloads

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// variants are the files of each of rayctl's templates, for each launcher, with each switch off and on, by NAME/LAUNCHER.
func variants(t *testing.T) map[string][][]File {
	t.Helper()
	all, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][][]File{}
	for _, one := range all {
		for _, launcher := range append(slices.Clone(one.Launchers), "")[:max(1, len(one.Launchers))] {
			for _, on := range []string{"false", "true"} {
				set := launcherSet(launcher)
				for _, p := range one.Parameters {
					if p.Type == boolType {
						set = append(set, p.Name+"="+on)
					}
				}
				values, err := one.Values(set, "project")
				if err != nil {
					t.Fatalf("%s: %v", one.Name, err)
				}
				files, err := one.Files(values)
				if err != nil {
					t.Fatalf("%s: %v", one.Name, err)
				}
				name := one.Name + "/" + launcher
				found[name] = append(found[name], files)
			}
		}
	}
	return found
}

// TestScripts: bash reads each script of the templates.
func TestScripts(t *testing.T) {
	scripts := 0
	for name, sets := range variants(t) {
		for _, f := range slices.Concat(sets...) {
			if filepath.Ext(f.Name) != ".sh" {
				continue
			}
			scripts++
			bash := exec.Command("bash", "-n")
			bash.Stdin = strings.NewReader(string(f.Content))
			if out, err := bash.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s of %s: %v %s", f.Name, name, err, out)
			}
		}
	}
	if scripts < 9*2*2*2 { // nine frameworks, two scripts, two launchers, two positions of the switches
		t.Errorf("only %d scripts were read", scripts)
	}
}

// TestRayVersion: only ROLL on Kubernetes, whose Ray KubeRay has to know, asks for a version of Ray. The others take that of their image.
func TestRayVersion(t *testing.T) {
	pinned := map[string]string{}
	for name, sets := range variants(t) {
		for _, f := range slices.Concat(sets...) {
			var file struct{ Ray struct{ Version string } }
			if f.Name != "rayctl.yaml" {
				continue
			}
			if read(t, f.Content, &file); file.Ray.Version != "" {
				pinned[name] = file.Ray.Version
			}
		}
	}
	if want := map[string]string{"roll/kuberay": "2.48.0"}; !maps.Equal(pinned, want) {
		t.Errorf("ray.version is %v, want %v", pinned, want)
	}
}

// TestTrainGPUs: with gpus each GPU has a process of the training, which uses it.
func TestTrainGPUs(t *testing.T) {
	for set, want := range map[string]struct {
		entrypoint string
		gpus       int
		packages   []string
	}{
		"nodes=3":        {"python train.py --workers 3 --steps 20", 0, []string{"ray[data,serve,train,tune]"}},
		"nodes=3,gpus=4": {"python train.py --workers 12 --gpu --steps 20", 4, []string{"ray[data,serve,train,tune]", "torch"}},
	} {
		one := builtin(t, "train")
		values, err := one.Values(strings.Split(set, ","), "project")
		if err != nil {
			t.Fatal(err)
		}
		files, err := one.Files(values)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Local   struct{ Packages []string }
			Job     struct{ Entrypoint string }
			Workers []struct{ Replicas, GPUs int }
		}
		read(t, files[slices.IndexFunc(files, func(f File) bool { return f.Name == "rayctl.yaml" })].Content, &file)
		if w := file.Workers[0]; file.Job.Entrypoint != want.entrypoint || w.Replicas != 3 || w.GPUs != want.gpus || !slices.Equal(file.Local.Packages, want.packages) {
			t.Errorf("%s: %+v, want %+v", set, file, want)
		}
	}
}

// programs of a host without any framework: what loads something makes the directory that is its last argument and notes the command, unless it is to fail.
const programs = `hf() {
  [ -z "$FAILS" ] || return 1
  mkdir -p "${*: -1}" && echo "$*" >>"$NOTES"
}
uv() { hf "$@"; }
python3() {
  case $* in
  *find_spec* | *runpy*) ;;                                              # only asks the framework
  *load_dataset*) [ -z "$FAILS" ] && echo "$(printenv HF_HOME) $*" >>"$NOTES" ;;    # into the cache
  *) hf "$@" && touch "${*: -1}/latest_checkpointed_iteration.txt" ;;
  esac
}
cd() { :; }
source() { :; }
read() { :; }
`

// noData are the templates that load no data, each for its reason.
var noData = map[string]string{"roll": "its repository has the data"}

// TestPrepareOnce: prepare.sh loads model and data below the shared directory. What it has loaded is not asked for again, so that it needs no Internet then, and a
// download that failed is repeated.
func TestPrepareOnce(t *testing.T) {
	templates, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, one := range templates {
		shared := t.TempDir()
		values, err := one.Values([]string{"shared=" + shared, "launcher=slurm"}, "project")
		if err != nil {
			continue // it has no shared directory
		}
		files, err := one.Files(values)
		i := slices.IndexFunc(files, func(f File) bool { return f.Name == "prepare.sh" })
		if err != nil || i < 0 {
			t.Fatalf("%s: %v", one.Name, err)
		}
		tried++
		notes := filepath.Join(shared, "notes")
		run := func(fails string) (int, error) {
			before := len(output(t, "cat", notes))
			script := exec.Command("bash", "-c", programs+string(files[i].Content))
			script.Env = append(script.Environ(), "NOTES="+notes, "FAILS="+fails)
			out, err := script.CombinedOutput()
			if fails == "" && err != nil {
				t.Errorf("%s: %v %s", one.Name, err, out)
			}
			return len(output(t, "cat", notes)) - before, err
		}
		output(t, "touch", notes)
		if loaded, err := run("yes"); err == nil || loaded > 0 {
			t.Errorf("%s: a download that fails is not an error, or leaves something: %d", one.Name, loaded)
		}
		if loaded, _ := run(""); loaded == 0 {
			t.Errorf("%s loads nothing after a download that failed", one.Name)
		}
		loads := output(t, "cat", notes)
		data := strings.Contains(loads, " "+shared+"/data/") || strings.Contains(loads, shared+"/hf -c import datasets;")
		if reason := noData[one.Name]; data == (reason != "") || !strings.Contains(loads, " "+shared+"/models/") {
			t.Errorf("%s loads no model, or data: %t, although %q: %s", one.Name, data, reason, loads)
		}
		if loaded, _ := run(""); loaded > 0 {
			t.Errorf("%s loads again: %s", one.Name, output(t, "cat", notes))
		}
	}
	if tried != 9 {
		t.Errorf("%d scripts were tried", tried)
	}
}

// TestRoot: Kubernetes starts the containers of images that run as root, which are all but SkyRL's, only where the pods may. rayctl's own pods need not.
func TestRoot(t *testing.T) {
	for name, sets := range variants(t) {
		template, launcher, _ := strings.Cut(name, "/")
		if launcher != "kuberay" || builtin(t, template).Group != "rl" || template == "grpo" {
			continue
		}
		for _, f := range slices.Concat(sets...) {
			type security struct {
				Spec struct {
					SecurityContext struct {
						RunAsNonRoot *bool `yaml:"runAsNonRoot"`
						RunAsUser    int   `yaml:"runAsUser"`
					} `yaml:"securityContext"`
				}
			}
			var file struct {
				Workers []struct{ Patch security }
				KubeRay struct {
					KeeperPatch security `yaml:"keeperPatch"`
				}
			}
			if f.Name != "rayctl.yaml" {
				continue
			}
			read(t, f.Content, &file)
			root := file.Workers[0].Patch.Spec.SecurityContext.RunAsNonRoot
			if may := root != nil && !*root; may != (template != "skyrl") || may != (file.KubeRay.KeeperPatch.Spec.SecurityContext.RunAsUser > 0) {
				t.Errorf("%s: %+v", name, file)
			}
		}
	}
}
