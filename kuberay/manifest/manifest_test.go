package manifest

import (
	"strings"
	"testing"
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
		"unknown field":   {"apiVersion: ray.io/v1\nkind: RayCluster\nspec: {" + cluster + ", rayVersoin: 2.60.0}\n", `unknown field "rayVersoin"`},
		"old API":         {"apiVersion: ray.io/v1alpha1\nkind: RayCluster\nspec: {" + cluster + "}\n", "ray.io/v1alpha1"},
		"no spec":         {"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: x}\n", "has no spec"},
		"existing":        {rayJob("  clusterSelector: {a: b}\n"), "clusterSelector"},
		"relative path":   {rayJob("  runtimeEnvYAML: 'working_dir: ./src'\n"), "no directory that it is relative to"},
		"their module":    {rayJob("  runtimeEnvYAML: 'py_modules: [/a/b]'\n"), "another machine"},
		"their file":      {rayJob("  runtimeEnvYAML: 'pip: requirements.txt'\n"), "pip of runtimeEnvYAML is the file requirements.txt, which is of another machine: write the content of the file there"},
		"their packages":  {rayJob("  runtimeEnvYAML: 'pip: {packages: /a/r.txt}'\n"), "pip.packages of runtimeEnvYAML is the file /a/r.txt"},
		"their conda":     {rayJob("  runtimeEnvYAML: 'conda: environment.yml'\n"), "conda of runtimeEnvYAML is the file environment.yml"},
		"bad runtime env": {rayJob("  runtimeEnvYAML: '[1]'\n"), "runtimeEnvYAML cannot be read"},
		"bad env":         {rayJob("  runtimeEnvYAML: 'env_vars: [a]'\n"), "env_vars of runtimeEnvYAML"},
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
