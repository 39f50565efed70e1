package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/local/localspec"
)

// loadUp is load for a command with the flags of `up`.
func (f *fixture) loadUp(args ...string) (*Loaded, error) {
	f.t.Helper()
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	AddUp(flags)
	if err := flags.Parse(args); err != nil {
		f.t.Fatal(err)
	}
	l, err := Load(Options{Flags: flags, Dir: f.dir, Up: true})
	if err == nil {
		err = l.ReadPackages(false)
	}
	return l, err
}

// TestUpPackages: the packages of flags are beside those of the file in the cluster's environment, and the job's own stay for `submit`.
func TestUpPackages(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "local: {packages: pins.txt}\njob: {pip: [of-jobs]}\n", "pins.txt": "of-file\n", "more.txt": "of-flag\n", "here/pyproject.toml": "[project]\nname = \"here\"\n"})
	l, err := f.loadUp("--pip", "ray[data]", "-r", "more.txt", "--with", "./here", "--set", "env.A=1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range localspec.Packages(l.Spec) {
		names = append(names, strings.Fields(strings.ReplaceAll(line, f.dir, "DIR"))[0])
	}
	if diff := cmp.Diff([]string{"of-file", "of-flag", "ray[data]", "DIR/here"}, names); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if got := l.Spec.Job.Pip.Packages; !slices.Equal(got, []string{"of-jobs"}) || l.Spec.Env["A"] != "1" {
		t.Errorf("job.pip %q, env %q", got, l.Spec.Env)
	}
}

// TestUpRefuses: each flag that would have no effect is refused with the next step, and every flag of `up` sets a key that its cluster has.
func TestUpRefuses(t *testing.T) {
	f := newFixture(t, map[string]string{"requirements.txt": "a\n"})
	for line, want := range map[string]string{
		"--launcher slurm --pip a":               "--pip: the slurm launcher installs no packages on the nodes: `rayctl submit --pip` has Ray install them for a job; for all jobs, the nodes' Python has them",
		"--launcher kuberay -r requirements.txt": "--requirements: the kuberay launcher installs no packages on the nodes: `rayctl submit --requirements` has Ray install them for a job; for all jobs, the image has them",
		"--with a --python /venv":                "not in that of ray.python (/venv): install them there yourself",
		"-r none.txt":                            filepath.Join(f.dir, "none.txt") + " does not exist",
		"--set job.pip=[a]":                      "it starts no job, so that --set job.pip would have no effect: give it to `rayctl submit`",
		"--set job.restarts.driver=2":            "--set job.restarts would have no effect",
		"--launcher kuberay --slurm-host login":  "--slurm-host: it is for Slurm, and the launcher here is kuberay: add --launcher slurm, or leave it out",
		"--namespace a":                          "--namespace: it is for KubeRay, and the launcher here is local",
	} {
		if _, err := f.loadUp(strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", line, err, want)
		}
	}
	if _, err := f.loadUp("--grace", "9s", "--output-dir", "/out", "--set", "job.grace=8s"); err != nil {
		t.Error(err)
	}
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	AddUp(flags)
	for _, s := range scalarFlags {
		if kept := flags.Lookup(s.flag) != nil; kept == (upWays[s.flag] != "") || kept == ofJobOnly(s.key) {
			t.Errorf("--%s (%s): up has it: %t", s.flag, s.key, kept)
		}
	}
}

// TestUpOfRender: `render --up` has the flags of `run`, and refuses what `up` does not have. A file may have the keys of jobs.
func TestUpOfRender(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "job: {env: {A: '1'}, prepare: a, launch: {perNode: 2}}\n"})
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddSpec(all)
	for flag := range upWays {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		AddSpec(flags)
		if all.Lookup(flag) == nil {
			t.Errorf("no command has the flag --%s", flag)
			continue
		}
		if err := flags.Parse([]string{"--" + flag + "=" + map[string]string{runtimeEnvJSON: "{}", "restarts": "2", "each-node": "2", "env": "B=1"}[flag]}); err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{"env-file", runtimeEnvFile}, flag) { // the file is read first
			continue
		}
		if _, err := Load(Options{Flags: flags, Dir: f.dir, Up: true}); err == nil || !strings.Contains(err.Error(), "it starts no job, so that --"+flag) {
			t.Errorf("--%s: %v", flag, err)
		}
	}
	l, err := f.loadUp()
	if err != nil {
		t.Fatal(err)
	}
	if job := JobOfUp(l.Spec); job.Env != nil || job.Prepare != "" || job.Launch.On() {
		t.Errorf("%+v", job)
	}
}
