package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

func TestChooseLauncher(t *testing.T) {
	const image = "image: rayproject/ray:2.60.0\n"
	for _, c := range []struct {
		name, file, user, env string
		args                  []string
		want                  string // launcher and reason, or a part of the error
	}{
		{"nothing", "", "", "", nil, "local: default launcher"},
		{"slurm section", "slurm: {partition: gpu}\n", "", "", nil, "slurm: rayctl.yaml has a slurm: section"},
		{"empty section", "slurm:\n", "", "", nil, "slurm: rayctl.yaml has a slurm: section"},
		{"kuberay section", image + "kuberay: {}\n", "", "", nil, "kuberay: rayctl.yaml has a kuberay: section"},
		{"profile's section", "name: a\n", "profiles: {default: {slurm: {}}}\n", "", nil, "slurm: profile default has a slurm: section"},
		{"both", "slurm: {}\nkuberay: {}\n", "", "", nil, "rayctl.yaml:1: there is a slurm: section, and a kuberay: section at rayctl.yaml:2, so the launcher is not clear: give --launcher"},
		{"one in the profile", "kuberay: {}\n", "profiles: {default: {slurm: {}}}\n", "", nil, "and a kuberay: section at rayctl.yaml:1"},
		{"key decides", image + "slurm: {}\nkuberay: {}\nlauncher: kuberay\n", "", "", nil, "kuberay: chosen by rayctl.yaml:4"},
		{"flag decides", "slurm: {}\nkuberay: {}\n", "", "", []string{"--launcher", "slurm"}, "slurm: chosen by --launcher"},
		{"local though there is a section", "slurm: {}\n", "", "", []string{"--launcher", "local"}, "local: chosen by --launcher"},
		{"variable decides", "slurm: {}\n", "", "local", nil, "local: chosen by RAYCTL_LAUNCHER"},
		{"flag's section counts nothing", "", "", "", []string{"--set", "slurm.partition=gpu"}, "local: default launcher"},
		{"typo", "", "", "", []string{"--launcher", "slrum"}, `--launcher: launcher: "slrum" is not possible here: did you mean slurm?`},
		{"unknown profile", "profiles: {site: {}}\n", "", "", []string{"--profile", "sit"}, `--profile: there is no profile "sit": did you mean "site"?`},
		{"no profiles", "", "", "", []string{"--profile", "x"}, `there is no profile "x": there are none`},
		{"profile in a profile", "profiles: {a: {profiles: {}}}\n", "", "", nil, "profiles.a: a profile holds profiles"},
		{"user's keys", "", "slurm: {}\n", "", nil, `config.yaml: unknown key "slurm": your configuration holds only profiles:`},
		{"typo in a profile", "", "profiles: {default: {slurm: {acount: x}}}\n", "", nil, `config.yaml:1: slurm: unknown key "acount": did you mean "account"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			if c.file != "" {
				files["rayctl.yaml"] = c.file
			}
			if c.user != "" {
				files[userConfig] = c.user
			}
			f := newFixture(t, files)
			if c.env != "" {
				t.Setenv("RAYCTL_LAUNCHER", c.env)
			}
			l, err := f.load("", c.args...)
			switch {
			case err != nil && !strings.Contains(err.Error(), c.want):
				t.Errorf("got  %v\nwant %s", err, c.want)
			case err == nil && l.Spec.Launcher+": "+l.Reason != c.want:
				t.Errorf("got  %s: %s\nwant %s", l.Spec.Launcher, l.Reason, c.want)
			}
		})
	}
}

func TestProfilesMergeGroups(t *testing.T) {
	f := newFixture(t, map[string]string{
		"rayctl.yaml": "workers:\n- {name: a, replicas: 2, cpus: 1}\nenv: {A: file}\nprofiles:\n  big:\n    workers:\n    - {name: a, replicas: 8}\n    - {name: b}\n    env: {B: big}\n",
		userConfig:    "profiles:\n  big: {name: not-used}\n",
	})
	l := f.must("", "--profile", "big")
	if got := groupValues(t, l); got != "workers.a.replicas=8 workers.a.cpus=1" || len(l.Spec.Workers) != 2 || l.Spec.Env["A"] != "file" || l.Spec.Env["B"] != "big" {
		t.Errorf("%s %v", got, l.Spec)
	}
	if l.Spec.Name == "not-used" {
		t.Error("the user's profile of the same name was used")
	}
	if got := l.Origins.of("workers.a.replicas"); got != "rayctl.yaml:7 (profile big)" {
		t.Errorf("origin %q", got)
	}
}

func TestValidationSaysWhere(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "name: a\njob:\n  cwd: rel\nworkers:\n- name: t\n  gpuType: h100\n"})
	_, err := f.load("")
	es := spec.AsErrors(err)
	if len(es) != 2 || es[0].Error() != "rayctl.yaml:6: workers.t.gpuType: a GPU type is given for nodes without GPUs: set gpus or remove gpuType" || es[1].Line != 3 {
		t.Errorf("%v", err)
	}
}

const rayCluster = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\n---\napiVersion: ray.io/v1\nkind: RayCluster\nmetadata:\n  name: raycluster-complete\nspec: {headGroupSpec: {template: {spec: {containers: [{name: h, image: i}]}}}}\n"

func TestManifest(t *testing.T) {
	f := newFixture(t, map[string]string{
		"ray.yaml": rayCluster, "two.yaml": rayCluster + "---\n" + rayCluster, "deploy.yaml": "apiVersion: apps/v1\nkind: Deployment\n", "service.yaml": "apiVersion: ray.io/v1\nkind: RayService\n",
		"job.json": `{"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "j"}, "spec": {"entrypoint": "python a.py", "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": []}}}}}}`,
	})
	l := f.must("", "-f", "ray.yaml", "--namespace", "rl")
	m := l.Manifest
	if m == nil || m.Kind != "RayCluster" || kuberayspec.Of(l.Spec).RayCluster["headGroupSpec"] == nil || kuberayspec.Of(l.Spec).ConfigMaps["code"] != nil || l.Spec.Name != "raycluster-complete" || l.Spec.Launcher != kuberayspec.Name || kuberayspec.Of(l.Spec).Namespace != "rl" {
		t.Errorf("%+v %+v", m, l.Spec)
	}
	if l.Reason != "ray.yaml is a RayCluster" {
		t.Error(l.Reason)
	}
	if l := f.must("", "-f", "job.json"); l.Manifest == nil || l.Manifest.Kind != "RayJob" || l.Spec.Job.Entrypoint != "python a.py" {
		t.Errorf("%+v", l.Manifest)
	}
	t.Setenv("RAYCTL_IMAGE", "other:1")
	t.Setenv("RAYCTL_HEAD_CPUS", "7")
	if l := f.must("", "-f", "ray.yaml"); l.Spec.Image == "other:1" || l.Spec.Head.CPUs == 7 || !strings.Contains(strings.Join(l.Warnings, "\n"), "RAYCTL_IMAGE is not used: ray.yaml decides image itself") {
		t.Errorf("%+v, %q", l.Spec, l.Warnings)
	}
	t.Setenv("RAYCTL_IMAGE", "")
	t.Setenv("RAYCTL_HEAD_CPUS", "")
	if err := os.MkdirAll(filepath.Join(f.dir, filepath.Dir(userConfig)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, userConfig), []byte("profiles:\n  default:\n    image: other:1\n    labels: {team: rl}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := f.must("", "-f", "ray.yaml"); l.Spec.Image == "other:1" || l.Spec.Labels["team"] != "rl" || !strings.Contains(strings.Join(l.Warnings, "\n"), "image of the profile default is not used") {
		t.Errorf("%+v, %q", l.Spec, l.Warnings)
	}
	f.fails("the RayCluster is taken as it is, so this has no effect: write it into the RayCluster", "", "-f", "ray.yaml", "--image", "other:1")
	f.fails("two.yaml: holds a RayCluster and a RayCluster", "", "-f", "two.yaml")
	f.fails("deploy.yaml: is a Kubernetes Deployment, which rayctl does not launch", "", "-f", "deploy.yaml")
	f.fails("service.yaml: is a Kubernetes RayService", "", "-f", "service.yaml")
	f.fails("a RayCluster can only be launched by kuberay, not slurm", "", "-f", "ray.yaml", "--launcher", "slurm")
}

// TestSites: one document is a valid configuration at each of several sites, whatever was made of it before. What a site has counts where no layer sets it.
func TestSites(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "name: a\nimage: rayproject/ray:2.60.0\nslurm: {partition: gpu}\nkuberay: {}\nlocal: {packages: [a]}\nray: {python: /x}\n" +
		"workers: [{name: w}]\njob: {pip: [numpy]}\n"})
	if err := f.flags.Parse([]string{"--account", "flag", "--workers", "3", "--pip", "jax", "--secret", "TOKEN"}); err != nil {
		t.Fatal(err)
	}
	d, err := Merge(Options{Flags: f.flags, Dir: f.dir})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := spec.Parse(strings.NewReader("slurm: {account: site, host: login1, partition: site}"), "sites.yaml")
	if err != nil {
		t.Fatal(err)
	}
	far, bad := Site{Launcher: "slurm", Keys: keys}, Site{Launcher: "local"}
	for range 2 { // the same again
		l, err := d.At(far)
		if err != nil {
			t.Fatal(err)
		}
		if c := slurmspec.Of(l.Spec); c.Account != "flag" || c.Host != "login1" || c.Partition != "gpu" || c.Transport != "auto" {
			t.Errorf("the far Slurm: %+v", c)
		}
		if from := l.Origins.of("slurm.host"); from != "sites.yaml:1" || l.Reason != "chosen by the site" {
			t.Errorf("%s, %s", from, l.Reason)
		}
		if near, err := d.At(Site{Launcher: "slurm"}); err != nil || slurmspec.Of(near.Spec).Host != "" || *near.Spec.Workers[0].Replicas != 3 {
			t.Errorf("the Slurm here: %v, %+v", err, near)
		}
		if job := l.Spec.Job.Pip.Packages; strings.Join(job, " ") != "numpy jax" || len(l.Spec.Secrets) != 1 || l.Spec.Launcher != "slurm" || l.Spec.Head.On != "w" {
			t.Errorf("%+v", l.Spec)
		}
		if _, err := d.At(bad); err == nil || !strings.Contains(err.Error(), "--account: it is for Slurm, and the launcher here is local") {
			t.Errorf("a flag of another site: %v", err)
		}
		if _, err := d.At(Site{}); err == nil || !strings.Contains(err.Error(), "so the launcher is not clear") {
			t.Errorf("no site: %v", err)
		}
	}
	if d, err = Merge(Options{Dir: f.dir}); err != nil {
		t.Fatal(err)
	}
	if l, err := d.At(Site{Launcher: "kuberay"}); err != nil || kuberayspec.Of(l.Spec).Scheduler != "auto" || l.Spec.Head.On != "" {
		t.Errorf("on Kubernetes: %v, %+v", err, l)
	}
	if _, err := d.At(bad); err == nil || !strings.Contains(err.Error(), "rayctl.yaml:5: local.packages: rayctl installs packages only") {
		t.Errorf("a mistake in one site's section: %v", err)
	}
}
