package spec_test

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// design is the cluster file of the design page, which shows every part.
//
//go:embed testdata/design.yaml
var design string

func mustDecode(t *testing.T, text string) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return s
}

func TestDecodeDesign(t *testing.T) {
	s := mustDecode(t, design)
	home, _ := os.UserHomeDir()
	wd, _ := os.Getwd()
	checks := []struct {
		what      string
		got, want any
	}{
		{"name", s.Name, "grpo"},
		{"version as written", s.Ray.Version, "2.60.0"},
		{"number as environment", s.Env["OMP_NUM_THREADS"], "8"},
		{"secret by name", s.Secrets[0], spec.Secret{Name: "WANDB_API_KEY"}},
		{"home of the client", s.Secrets[1].File, filepath.Join(home, ".cache/huggingface/token")},
		{"secret reference", *s.Secrets[2].SecretKeyRef, spec.SecretKeyRef{"s", "k"}},
		{"relative mount", localspec.Source(s.Mounts[0].Source.Sections), filepath.Join(wd, "models")},
		{"claim", kuberayspec.Source(s.Mounts[0].Source.Sections).PersistentVolumeClaim.ClaimName, "models"},
		{"memory", s.Workers[0].Memory.Value(), int64(1500 << 30)},
		{"cpus", float64(s.Workers[0].CPUs), 96.0},
		{"group's partition", slurmspec.GroupOf(s.Workers[2].Sections).Partition, "cpu"},
		{"inlined partition", slurmspec.Of(s).Partition, "gpu"},
		{"total", time.Duration(s.Lifetime.Total), 120 * time.Hour},
		{"grace", time.Duration(*s.Job.Grace), 5 * time.Minute},
		{"preempted", *s.Job.Restarts.Preempted, units.Unlimited},
		{"working directory", s.Job.WorkingDir, wd},
		{"gang", *s.Gang, true},
		{"exclusive", *slurmspec.Of(s).Exclusive, true},
		{"limits", kuberayspec.GroupOf(s.Workers[1].Sections).Limits["rdma/ib"], mustQuantity("8")},
	}
	for _, c := range checks {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
	if err := spec.Validate(s); err != nil && !strings.Contains(err.Error(), "secretKeyRef") {
		t.Errorf("validate: %v", err)
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "name: a\n\n\n\n\n\nworker: []\n", `f.yaml:7: unknown key "worker": did you mean "workers"?`},
		{"nested", "workers:\n- name: t\n  gpu: 1\n", `f.yaml:3: workers.t: unknown key "gpu": did you mean "gpus"?`},
		{"a bound", "workers:\n- name: t\n  min: 1\n", `f.yaml:3: workers.t: unknown key "min": did you mean "minReplicas"?`},
		{"case", "job:\n  workingdir: .\n", `f.yaml:2: job: unknown key "workingdir": did you mean "workingDir"?`},
		{"elsewhere", "partition: gpu\n", `f.yaml:1: unknown key "partition": did you mean slurm.partition?`},
		{"list elsewhere", "job:\n  packages: [a]\n", `f.yaml:2: job: unknown key "packages": did you mean local.packages?`},
		{"top level", "kuberay:\n  image: x\n", `f.yaml:2: kuberay: unknown key "image": it belongs at the top level of the file, without indentation`},
		{"top level, a list", "slurm:\n  mounts: []\n", `f.yaml:2: slurm: unknown key "mounts": it belongs at the top level of the file, without indentation`},
		{"group key", "replicas: 2\n", `f.yaml:1: unknown key "replicas": did you mean workers[].replicas?`},
		{"another tool's key", "workers:\n- {name: t, mem: 1Gi}\n", `f.yaml:2: workers.t: unknown key "mem": did you mean "memory"?`},
		{"another tool's key of another place", "command: python train.py\n", `f.yaml:1: unknown key "command": did you mean job.entrypoint?`},
		{"another tool's key of the file", "job: {max-retries: 2, ram: 1, container: x}\n", `f.yaml:1: job: unknown key "max-retries": did you mean "restarts"?`},
		{"another tool's key of the top level", "job: {container: x}\n", `f.yaml:1: job: unknown key "container": did you mean "image", which belongs at the top level of the file, without indentation?`},
		{"Ray's spelling", "runtime_env: {pip: [x]}\n", `f.yaml:1: unknown key "runtime_env": did you mean job.runtimeEnv?`},
		{"a mount that is no list", "mounts: /shared\n", `f.yaml:1: mounts: must be a list, not "/shared": write it as [/a/path], or lines that begin with -, each with keys of mountPath,`},
		{"unknown to all", "job: {nosuchkey: x}\n", "unknown key \"nosuchkey\": `rayctl schema` lists the keys with their meaning"},
		{"Kubernetes type", "mounts:\n- mountPath: /m\n  source:\n    kuberay:\n      hostPath: {pth: /x}\n", `f.yaml:5: mounts[0].source.kuberay.hostPath: unknown key "pth": did you mean "path"?`},
		{"no map", "- a\n", "f.yaml:1: a cluster file is a map of keys, this is a list"},
		{"list wanted", "workers: 3\n", "f.yaml:1: workers: must be a list, not 3, a number"},
		{"map wanted", "ray: 2.60.0\n", `f.yaml:1: ray: must be a map, not "2.60.0": its keys are version, python`},
		{"map of any keys wanted", "kuberay: {patch: [a]}\n", "f.yaml:1: kuberay.patch: must be a map, not a list: write it as KEY: VALUE lines"},
		{"number wanted", "workers:\n- {name: t, replicas: two}\n", `f.yaml:2: workers.t.replicas: must be a whole number, not "two"`},
		{"text is no number", "workers:\n- {name: t, replicas: \"2\"}\n", `f.yaml:2: workers.t.replicas: must be a whole number, not "2"`},
		{"fraction", "workers:\n- {name: t, gpus: 0.5}\n", "f.yaml:2: workers.t.gpus: must be a whole number, not 0.5"},
		{"too large", "workers:\n- {name: t, replicas: 99999999999999999999}\n", "f.yaml:2: workers.t.replicas: 99999999999999999999 is too large: write a number up to 2147483647"},
		{"bool wanted", "gang: maybe\n", `f.yaml:1: gang: must be true or false, not "maybe"`},
		{"text wanted", "name: [a]\n", "f.yaml:1: name: must be text, not a list"},
		{"empty", "name:\n", "f.yaml:1: name: is empty: give it a value"},
		{"empty item", "slurm:\n  modules: [a, ]\n  extraArgs: [~]\n", "f.yaml:3: slurm.extraArgs[0]: is empty"},
		{"unit", "workers:\n- {name: t, memory: 16GB}\n", `f.yaml:2: workers.t.memory: "16GB" is not a quantity: write a Kubernetes quantity like 16Gi`},
		{"negative quantity", "workers:\n- {name: t, memory: -1Gi}\n", `workers.t.memory: "-1Gi" is not a quantity`},
		{"exponent that takes Kubernetes' parser minutes", "workers:\n- {name: t, memory: 1e9999999}\n", "f.yaml:2: workers.t.memory: \"1e9999999\" is not a quantity"},
		{"cpus", "workers:\n- {name: t, cpus: many}\n", `f.yaml:2: workers.t.cpus: "many" is not a number of CPUs`},
		{"duration without unit", "lifetime: {max: 90}\n", `f.yaml:1: lifetime.max: "90" is not a duration; write it like 90s`},
		{"count", "job: {restarts: {driver: -1}}\n", `f.yaml:1: job.restarts.driver: "-1" is not a count`},
		{"missing key", "workers:\n- replicas: 2\n", `f.yaml:2: workers[0]: the key "name" is missing`},
		{"twice", "name: a\nname: b\n", `f.yaml:2: the key "name" is given twice, first in line 1`},
		{"twice in a map", "env:\n  A: 1\n  A: 2\n", `f.yaml:3: the key "A" is given twice, first in line 2`},
		{"two documents", "name: a\n---\nname: b\n", "f.yaml:2: a second YAML document begins here"},
		{"syntax", "name: a\n  b: c\n", "f.yaml:2: is not valid YAML: mapping values are not allowed in this context: a key cannot stand below a line that has its value already"},
		{"tab", "job:\n\tentrypoint: x\n", "f.yaml:2: is not valid YAML: found character that cannot start any token: indent with spaces instead of tabs"},
		{"merge key", "a: &a {name: x}\nray:\n  <<: *a\n", "f.yaml:3: merge keys (<<) are not supported"},
		{"odd key", "? [a]\n: b\n", "f.yaml:1: a key must be a single value: put quotes around a key that begins with { or ["},
		{"odd tag", "name: !!binary aGk=\n", "f.yaml:1: the YAML tag !!binary is not supported"},
		{"not text", "name: \xff\xfe\n", "f.yaml: is not a text file in UTF-8: save it as UTF-8"},
		{"infinite", "workers:\n- {name: t, resources: {x: .inf}}\n", "f.yaml:2: workers.t.resources.x: must be a number, not .inf"},
		{"infinite in a patch", "kuberay: {patch: {a: .nan}}\n", "f.yaml:1: kuberay.patch: .nan is not a finite number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := spec.Decode(strings.NewReader(c.text), "f.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			var e *spec.Error
			if !errors.As(err, &e) || e.File != "f.yaml" {
				t.Errorf("not an *Error with its file: %#v", err)
			}
		})
	}
}

func TestDecodeReportsEverything(t *testing.T) {
	_, err := spec.Decode(strings.NewReader("nam: a\nworkers: 3\ngang: maybe\n"), "f.yaml")
	if got := len(spec.AsErrors(err)); got != 3 {
		t.Errorf("%d errors, want 3: %v", got, err)
	}
}

func TestAliases(t *testing.T) {
	s := mustDecode(t, "workers:\n- {name: a, resources: &r {x: 1}}\n- {name: b, resources: *r}\n")
	if s.Workers[1].Resources["x"] != 1 {
		t.Errorf("alias not resolved: %v", s.Workers[1])
	}
	s.Workers[1].Resources["x"] = 2
	if s.Workers[0].Resources["x"] != 1 {
		t.Error("aliases share memory")
	}
	bomb := "kuberay:\n  patch:\n    a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += "    " + string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}
	if _, err := spec.Decode(strings.NewReader(bomb), "f.yaml"); err == nil || !strings.Contains(err.Error(), "which no cluster file has") {
		t.Errorf("alias bomb: %v", err)
	}
}

func TestTextStaysAsWritten(t *testing.T) {
	s := mustDecode(t, "ray: {version: 3.10}\nenv: {A: 007, B: yes, C: 1e3, D: 2026-01-02, E: '', F: \"a\\nb\", lower: x, UPPER: y, ümlaut: $(id)}\n")
	want := map[string]string{"A": "007", "B": "yes", "C": "1e3", "D": "2026-01-02", "E": "", "F": "a\nb", "lower": "x", "UPPER": "y", "ümlaut": "$(id)"}
	if d := cmp.Diff(want, s.Env); d != "" {
		t.Error(d)
	}
	if s.Ray.Version != "3.10" {
		t.Errorf("version %q", s.Ray.Version)
	}
}

// TestHostileTextSurvives checks that text with a special meaning in YAML, JSON, shells or tables is read back unchanged.
func TestHostileTextSurvives(t *testing.T) {
	for _, text := range []string{
		" lead", "trail ", "a\nb\r\n\tc", "\x7f", "\u0085\u2028\u2029\ufeff", "\x1b[31m", "$(touch x) `id` ${HOME} %s %n", "'\"\\", "null", "~", "true", "0x10", "1e3", "-", "- a", "# no comment",
		"a: b", "{a", "*a", "&a", "!!int 3", "日本語 🚀", "<script>&amp;", strings.Repeat("long ", 1000), "",
	} {
		d := spec.NewDocument()
		o := spec.Origin{Source: "--env"}
		if err := d.Set("job.env.A", text, o); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		s, err := d.Decode()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		ls, err := spec.Leaves(s)
		if err != nil || len(ls) != 1 || ls[0].Value != text || spec.Copy(s).Job.Env["A"] != text || len(spec.Diff(s, spec.Copy(s))) != 0 {
			t.Errorf("%q: %q, %v", text, ls, err)
		}
		if err := spec.Validate(s); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"\xff\xfe", "a\x00b"} {
		if err := spec.NewDocument().Set("job.env.A", text, spec.Origin{Source: "--env"}); err == nil || !strings.Contains(err.Error(), "is not text in UTF-8") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestEmptyFileAndSections(t *testing.T) {
	for _, text := range []string{"", "---\n", "# nothing\n", "{}\n", "~\n"} {
		if s := mustDecode(t, text); slurmspec.Of(s) != nil || s.Name != "" {
			t.Errorf("%q: %+v", text, s)
		}
	}
	if s := mustDecode(t, "slurm:\n"); slurmspec.Of(s) == nil {
		t.Error("an empty section is a section")
	}
}

func mustQuantity(s string) spec.Quantity {
	q := spec.Quantity{}
	if err := q.UnmarshalJSON([]byte(`"` + s + `"`)); err != nil {
		panic(err)
	}
	return q
}

// TestHeadOfItsOwn: `head.on: head` gives the head a node of its own, and so does the number 0 for what its node is to have, as in `ray start --num-cpus=0`. A file that
// says nothing of that puts the head on the first group.
func TestHeadOfItsOwn(t *testing.T) {
	for text, want := range map[string]int{
		"head: {on: head}": 2, "head: {cpus: 0}": 2, "head: {gpus: 0}": 2, "head: {cpus: 1}": 2, "head: {on: w, cpus: 0}": 1, "head: {}": 1, "head:": 1, "{}": 1,
	} {
		s := spec.For(mustDecode(t, "workers: [{name: w}]\n"+strings.TrimPrefix(text, "{}")), "local")
		if err := spec.Validate(s); err != nil || s.TotalNodes() != want {
			t.Errorf("%s: %d nodes, want %d (%v)", text, s.TotalNodes(), want, err)
		}
	}
	if s := spec.For(mustDecode(t, "head: {cpus: 0}"), "local"); s.TotalNodes() != 1 || !s.NodeGroups()[0].Tasks {
		t.Errorf("without workers the head is the whole cluster: %+v", s.NodeGroups())
	}
}

// TestSetPackages: packages with extras need no quotes in a list of a flag; what is valid YAML, or has quotes, is read as YAML.
func TestSetPackages(t *testing.T) {
	for text, want := range map[string][]string{
		"[ray[tune]]": {"ray[tune]"},
		"[jax, ray[tune,train]==2.60.0 , a[b] >= 1]": {"jax", "ray[tune,train]==2.60.0", "a[b] >= 1"},
		`["ray[tune]", jax]`:                         {"ray[tune]", "jax"},
		"[]":                                         {},
		`["ray[tune]", ray[serve]]`:                  nil,
		"[ray[tune]":                                 nil,
	} {
		for _, key := range []string{"local.packages", "job.pip"} {
			d := spec.NewDocument()
			err := d.Set(key, text, spec.Origin{Source: "--set"})
			if want == nil {
				if err == nil || !strings.Contains(err.Error(), `is not valid here: give it as YAML, with quotes around an entry that has brackets, such as [a, "b[c]"]`) {
					t.Errorf("%s=%s: %v", key, text, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s=%s: %v", key, text, err)
				continue
			}
			s, err := d.Decode()
			if err != nil {
				t.Fatal(err)
			}
			got := s.Job.Pip.Packages
			if key == "local.packages" {
				got = localspec.Packages(s)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s=%s: got %q, want %q", key, text, got, want)
			}
		}
	}
}
