package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const cluster = `headGroupSpec: {template: {spec: {containers: [{name: h, image: "rayproject/ray:2.60.0"}]}}}`

const job = `
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: train, namespace: rl, labels: {team: rl}, annotations: {note: x, kubectl.kubernetes.io/last-applied-configuration: "{}"}}
spec:
  entrypoint: python train.py
  runtimeEnvYAML: |
    working_dir: https://example.com/a.zip
    pip: [requests==2.26.0]
    env_vars: {A: "1", B: two}
    config: {setup_timeout_seconds: 60}
  entrypointNumCpus: 2
  entrypointNumGpus: 0.5
  entrypointResources: '{"r": 1}'
  metadata: {k: v}
  backoffLimit: 2
  activeDeadlineSeconds: 600
  preRunningDeadlineSeconds: 60
  shutdownAfterJobFinishes: true
  suspend: true
  rayClusterSpec: {` + cluster + `}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data: {a.py: "print(1)\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {k: s3cret}
`

func keys(m *Manifest) map[string]string {
	out := map[string]string{}
	for _, k := range m.Keys {
		out[k.Path] = k.Value
	}
	return out
}

func TestRayJob(t *testing.T) {
	m, err := Detect("job.yaml", []byte(job))
	if err != nil {
		t.Fatal(err)
	}
	got := keys(m)
	want := map[string]string{
		"name": "train", "kuberay.namespace": "rl", "labels.team": "rl", "kuberay.annotations.note": "x",
		"job.entrypoint": "python train.py", "job.workingDir": "https://example.com/a.zip", "job.pip": `["requests==2.26.0"]`,
		"job.env.A": "1", "job.env.B": "two", "job.runtimeEnv": `{"config":{"setup_timeout_seconds":60}}`,
		"job.entrypointCpus": "2", "job.entrypointGpus": "0.5", "job.entrypointResources": `{"r": 1}`, "job.metadata.k": "v",
		"job.restarts.driver": "2", "job.restarts.nodeFailure": "2", "lifetime.total": "600s", "lifetime.queue": "60s",
		"kuberay.configMaps": `{"code":{"a.py":"print(1)\n"}}`,
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want)+1 || !strings.Contains(got["kuberay.rayCluster"], "headGroupSpec") {
		t.Errorf("%v", got)
	}
	notes := strings.Join(m.Notes, "\n")
	if !strings.Contains(notes, "suspend has no effect") || !strings.Contains(notes, "Secret key") || strings.Contains(notes, "s3cret") || len(m.Notes) != 2 {
		t.Errorf("%q", m.Notes)
	}
}

// TestSuspended: a RayCluster that KubeRay would make nothing of is started.
func TestSuspended(t *testing.T) {
	for _, text := range []string{
		"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: x}\nspec: {suspend: true, " + cluster + "}\n",
		"apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: x}\nspec: {entrypoint: a, rayClusterSpec: {suspend: true, " + cluster + "}}\n",
	} {
		m, err := Detect("f.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if rc := keys(m)["kuberay.rayCluster"]; strings.Contains(rc, "suspend") || !strings.Contains(rc, "headGroupSpec") || !strings.Contains(strings.Join(m.Notes, ""), "suspend: true of the RayCluster is left out") {
			t.Errorf("%s, %q", rc, m.Notes)
		}
	}
}

func TestRefused(t *testing.T) {
	rayJob := func(more string) string {
		return "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: j}\nspec:\n  rayClusterSpec: {" + cluster + "}\n" + more
	}
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":   {rayJob("  entrypiont: x\n"), "f.yaml:6: spec.entrypiont: is no field of RayJob: compare it"},
		"beside the spec": {"apiVersion: ray.io/v1\nkind: RayCluster\nspek: {}\nspec: {" + cluster + "}\n", "f.yaml:3: spek: is no field of RayCluster"},
		"old API":         {"apiVersion: ray.io/v1alpha1\nkind: RayCluster\nspec: {" + cluster + "}\n", "ray.io/v1alpha1"},
		"no spec":         {"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: x}\n", "has no spec"},
		"existing":        {rayJob("  clusterSelector: {a: b}\n"), "clusterSelector"},
		"relative path":   {rayJob("  runtimeEnvYAML: 'working_dir: ./src'\n"), "no directory that it is relative to"},
		"their module":    {rayJob("  runtimeEnvYAML: 'py_modules: [/a/b]'\n"), "py_modules[0]: /a/b is a path of another machine"},
		"their file":      {rayJob("  runtimeEnvYAML: 'pip: requirements.txt'\n"), "spec.runtimeEnvYAML: pip: is the file requirements.txt, which is of another machine: write the content of the file there"},
		"their packages":  {rayJob("  runtimeEnvYAML: 'pip: {packages: /a/r.txt}'\n"), "pip.packages: is the file /a/r.txt"},
		"their conda":     {rayJob("  runtimeEnvYAML: 'conda: environment.yml'\n"), "conda: is the file environment.yml"},
		"bad runtime env": {rayJob("  runtimeEnvYAML: '[1]'\n"), "spec.runtimeEnvYAML: must be a map of keys, not a list"},
		"no API":          {"kind: RayJob\nspec: {}\n", `is a RayJob with apiVersion ""`},
		"service":         {"apiVersion: ray.io/v1\nkind: RayService\n", "which rayctl does not launch"},
	} {
		if m, err := Detect("f.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	for _, text := range []string{"name: x\nlauncher: kuberay\n", "- a\n", ":\n\t", ""} {
		if m, err := Detect("f.yaml", []byte(text)); m != nil || err != nil {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
}

// TestOwners: what Argo CD, Helm and Flux know their objects by is not copied, or they would prune what rayctl makes; other labels and annotations are.
func TestOwners(t *testing.T) {
	m, err := Detect("f.yaml", []byte("apiVersion: ray.io/v1\nkind: RayCluster\nmetadata:\n  name: x\n"+
		"  labels: {app.kubernetes.io/managed-by: Helm, app.kubernetes.io/instance: i, helm.sh/chart: c, kustomize.toolkit.fluxcd.io/name: k, argocd.argoproj.io/instance: i, app.kubernetes.io/name: nm, team: rl}\n"+
		"  annotations: {meta.helm.sh/release-name: r, argocd.argoproj.io/tracking-id: 'i:ray.io/RayCluster:ns/x', fluxcd.io/sync-checksum: c, kustomize.toolkit.fluxcd.io/prune: disabled, config.k8s.io/owning-inventory: i, note: x1}\n"+
		"spec: {"+cluster+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := keys(m)
	delete(got, "kuberay.rayCluster")
	if d := cmp.Diff(map[string]string{"name": "x", "labels.app.kubernetes.io/name": "nm", "labels.team": "rl", "kuberay.annotations.note": "x1"}, got); d != "" {
		t.Error(d)
	}
	const want = "f.yaml: labels and annotations by which others own the file's object are left out: app.kubernetes.io/instance, app.kubernetes.io/managed-by, argocd.argoproj.io/instance, argocd.argoproj.io/tracking-id, " +
		"config.k8s.io/owning-inventory, fluxcd.io/sync-checksum, helm.sh/chart, kustomize.toolkit.fluxcd.io/name, kustomize.toolkit.fluxcd.io/prune, meta.helm.sh/release-name"
	if d := cmp.Diff([]string{want}, m.Notes); d != "" {
		t.Error(d)
	}
}

// TestNewerFields: fields that a newer KubeRay may have are noted with their places, and are in what is launched.
func TestNewerFields(t *testing.T) {
	const newer = "networkPolicy: {mode: DenyAll}, tlsOptions: {enabled: true}, historyServerOptions: {a: 1}, autoscalerOptions: {args: [x]}, gcsFaultToleranceOptions: {redisAddress: r, backend: rocksdb}, workerGroupSpecs: [{groupName: a, template: {spec: {containers: []}}, drain: true}], "
	for kind, text := range map[string]string{
		"spec.":                "apiVersion: ray.io/v1\nkind: RayCluster\nspec: {" + newer + cluster + "}\n",
		"spec.rayClusterSpec.": "apiVersion: ray.io/v1\nkind: RayJob\nspec: {entrypoint: a,\n rayClusterSpec: {" + newer + cluster + "}}\n",
	} {
		m, err := Detect("f.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		notes, rc := strings.Join(m.Notes, "\n"), keys(m)["kuberay.rayCluster"]
		for _, field := range []string{"networkPolicy", "tlsOptions", "historyServerOptions", "autoscalerOptions.args", "gcsFaultToleranceOptions.backend", "workerGroupSpecs[0].drain"} {
			if !strings.Contains(notes, kind+field+" (line ") {
				t.Errorf("%s%s: %s", kind, field, notes)
			}
		}
		if len(m.Notes) != 1 || !strings.Contains(notes, "refuses what its KubeRay does not have") || !strings.Contains(rc, "DenyAll") || !strings.Contains(rc, "rocksdb") {
			t.Errorf("%s\n%s", notes, rc)
		}
	}
}

// TestPlaces: a wrong value is named by line and path, without Go's types.
func TestPlaces(t *testing.T) {
	const head = "# a file\n---\napiVersion: v1\nkind: Secret\n---\napiVersion: ray.io/v1\nkind: RayCluster\nmetadata:\n  name: x\n"
	const pods = "  headGroupSpec:\n    template: {spec: {containers: [{name: h, image: i}]}}\n  workerGroupSpecs:\n  - groupName: a\n    replicas: 1\n    template: {spec: {containers: [{name: h, image: i}]}}\n"
	for text, want := range map[string]string{
		"  annotations:\n    prometheus.io/port: 8080\nspec:\n" + pods:       "f.yaml:11: metadata.annotations.prometheus.io/port: must be a text, not a number: write it in quotes",
		"  labels: {a: b, c: true}\nspec:\n" + pods:                          "f.yaml:10: metadata.labels.c: must be a text, not true or false: write it in quotes",
		"  labels: [a]\nspec:\n" + pods:                                      "f.yaml:10: metadata.labels: must be a map of keys, not a list: compare it",
		"spec:\n  rayVersion: 2.60\n" + pods:                                 "f.yaml:11: spec.rayVersion: must be a text, not a number: write it in quotes",
		"spec:\n" + pods + "  - groupName: b\n    replicas: '2'\n":           "f.yaml:18: spec.workerGroupSpecs[1].replicas: must be a number, not a text: compare it",
		"spec:\n" + pods + "    rayStartParams: {num-cpus: 0}\n":             "f.yaml:17: spec.workerGroupSpecs[0].rayStartParams.num-cpus: must be a text, not a number",
		"spec:\n" + pods + "  enableInTreeAutoscaling: [1, {a: [2]}, 'x']\n": "f.yaml:17: spec.enableInTreeAutoscaling: must be true or false, not a list",
	} {
		_, err := Detect("f.yaml", []byte(head+text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWrongRuntimeEnv: an error names the line of the file and the key, whatever the style of the text.
func TestWrongRuntimeEnv(t *testing.T) {
	for text, want := range map[string]string{
		"|\n    env_vars:\n      A: a\n      B: 1":              `f.yaml:10: spec.runtimeEnvYAML: env_vars.B: must be a text, not a number: write it in quotes`,
		"|-\n    # first\n\n    env_vars: {A: true}":            `f.yaml:10: spec.runtimeEnvYAML: env_vars.A: must be a text, not true or false: write it in quotes`,
		"|\n    env_vars:\n      A:":                            `f.yaml:9: spec.runtimeEnvYAML: env_vars.A: must be a text, and has no value: write "" for an empty one`,
		"|\n    env_vars: [a]":                                  `f.yaml:8: spec.runtimeEnvYAML: env_vars: must be a map of texts, not a list: write NAME: value for each variable, numbers and true in quotes`,
		"|\n    pip:\n    - a\n    - [b]":                       `f.yaml:10: spec.runtimeEnvYAML: pip[1]: must be a text, not a list`,
		"|\n    uv:\n      packages:\n      - a: b":             `f.yaml:10: spec.runtimeEnvYAML: uv.packages[0]: must be a text, not a map of keys`,
		"|\n    pip: 3":                                         `f.yaml:8: spec.runtimeEnvYAML: pip: must be a list of texts, not a number`,
		"|\n    excludes: x":                                    `f.yaml:8: spec.runtimeEnvYAML: excludes: must be a list of texts, not a text`,
		"|\n    a: 1\n    working_dir: ./src":                   `f.yaml:9: spec.runtimeEnvYAML: working_dir: "./src" is a relative path`,
		"'working_dir: {a: b}'":                                 `f.yaml:7: spec.runtimeEnvYAML: working_dir: must be a text, not a map of keys`,
		"\"env_vars:\\n  N: 3\"":                                `f.yaml:7: spec.runtimeEnvYAML: env_vars.N: must be a text, not a number`,
		">\n    env_vars: {A: 1}":                               `f.yaml:7: spec.runtimeEnvYAML: env_vars.A: must be a text`,
		"|\n    pip: [a]\n    pip: [b]":                         `f.yaml:9: spec.runtimeEnvYAML: the key "pip" is given twice`,
		"|\n    a: b\n    - c":                                  `f.yaml:8: spec.runtimeEnvYAML: is not valid YAML: `,
		"|\n    'env_vars ü': {}\n    env_vars: {$(x); 'y': 1}": `f.yaml:9: spec.runtimeEnvYAML: env_vars.$(x); 'y': must be a text, not a number`,
	} {
		_, err := Detect("f.yaml", []byte("# a comment\napiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: x}\nspec:\n  entrypoint: a\n  runtimeEnvYAML: "+text+"\n  rayClusterSpec: {"+cluster+"}\n"))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestKeysOfYAML11: what older YAML takes for true and false are names of variables.
func TestKeysOfYAML11(t *testing.T) {
	m, err := Detect("j.yaml", []byte("apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: a\n  runtimeEnvYAML: |\n    env_vars:\n      N: \"4\"\n      y: on\n      A: yes\n  rayClusterSpec: {"+cluster+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := keys(m); got["job.env.N"] != "4" || got["job.env.y"] != "on" || got["job.env.A"] != "yes" {
		t.Errorf("%v", got)
	}
}

func TestImageDirectory(t *testing.T) {
	m, err := Detect("j.yaml", []byte("apiVersion: ray.io/v1\nkind: RayJob\nspec: {entrypoint: a, runtimeEnvYAML: 'working_dir: /home/ray/app', rayClusterSpec: {"+cluster+"}}\n"))
	if err != nil || keys(m)["job.cwd"] != "/home/ray/app" {
		t.Errorf("%v, %v", m, err)
	}
}

// TestGenerateName: a manifest without a name gives runs the beginning of theirs, as the API server would.
func TestGenerateName(t *testing.T) {
	m, err := Detect("f.yaml", []byte("apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {generateName: sweep-}\nspec: {headGroupSpec: {template: {spec: {containers: [{name: h, image: i}]}}}}\n"))
	if err != nil || m.Name != "sweep" {
		t.Errorf("%+v, %v", m, err)
	}
}
