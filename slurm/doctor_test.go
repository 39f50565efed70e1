//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// doctorFindings: a good file is found well, and each fault by its name with what to do.
func (b *bed) doctorFindings(t *testing.T) {
	// What other tests did to the nodes may not have come to an end in the controller's eyes.
	b.Await(t, "node1 to take jobs", func(ctx context.Context) (bool, error) {
		_, err := b.Slurm(ctx, "sbatch", "--test-only", "--account=users", "--nodelist=node1", "--wrap=true")
		return err == nil, err
	})
	file, wrong := b.Cluster.Dir+"/plain-file", b.Cluster.Dir+"/wrong"
	if err := errors.Join(
		os.WriteFile(file, nil, 0o600), os.Mkdir(wrong, 0o755),
		// A node whose clock is an hour ahead: Linux has one clock for all of the testbed's nodes.
		os.WriteFile(wrong+"/date", []byte("#!/bin/sh\necho $(($(/bin/date +%s) + 3600))\n"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	crowded := b.crowded(t)
	for name, test := range map[string]struct {
		change func(*spec.ClusterSpec)
		dir    string
		check  string // that fails; "" none
		hint   string
		says   string // a check that does not fail
		path   string // before PATH, also on the node: srun hands it on
	}{
		"good": {change: func(s *spec.ClusterSpec) {
			slurmspec.Of(s).Account, s.Head.GPUs, s.Head.GPUType = "users", 2, "h100"
			slurmspec.Of(s).ExtraArgs = []string{"--kill-on-invalid-dep=yes", "--wait-all-nodes=1", "--get-user-env", "--begin=now"} // which srun does not have, or which delay a step
			s.Ray.Version = "2.60.0"
			// A step of the head's size, in the file's environment, as Ray would be started.
			s.Env, s.Setup = map[string]string{"FROM_FILE": "it's $(id)"}, `[ "$FROM_FILE" = "it's \$(id)" ]; [ "$CUDA_VISIBLE_DEVICES" = 0,1 ]`
		}, says: "Ray on node1: 2.60.0"},
		"version of the node": {says: "token: Ray checks the cluster's token"},
		"setup":               {change: func(s *spec.ClusterSpec) { s.Setup = "echo no such licence; false" }, check: "Ray on node1", hint: "setup"},
		"no runtime":          {change: func(s *spec.ClusterSpec) { s.Image, slurmspec.Of(s).ContainerRuntime = "ray.sif", "apptainer" }, check: "container on node1", hint: "slurm.modules"},
		"partition":           {change: func(s *spec.ClusterSpec) { slurmspec.Of(s).Partition = "nope; $(id)" }, check: "request", hint: "slurm.partition"},
		"account":             {change: func(s *spec.ClusterSpec) { slurmspec.Of(s).Account = "others" }, check: "request", hint: "slurm.account"},
		"QOS":                 {change: func(s *spec.ClusterSpec) { slurmspec.Of(s).QOS = "nope" }, check: "request", hint: "slurm.qos"},
		"QOS of a group":      {change: func(s *spec.ClusterSpec) { b.elasticWith(s, "nope") }, check: "request", hint: "slurm.qos"},
		"GRES":                {change: func(s *spec.ClusterSpec) { s.Head.GPUs, s.Head.GPUType = 1, "b200" }, check: "request", hint: "gpu"},
		"directory":           {dir: file + "/below", check: "slurm.dir", hint: "slurm.dir"},
		"not shared":          {dir: "/dev/shm/rayctl", check: "slurm.dir on node1", hint: "all nodes share"},
		"no Ray":              {change: func(s *spec.ClusterSpec) { s.Ray.Python = "/usr/bin/python3" }, check: "Ray on node1", hint: "ray.python"},
		"another version":     {change: func(s *spec.ClusterSpec) { s.Ray.Version = "2.51.0" }, check: "Ray on node1", hint: "ray.version", says: "token: Ray 2.51.0 has no tokens"},
		"no python":           {change: func(s *spec.ClusterSpec) { s.Ray.Python = "/no/such/python" }, check: "python on node1", hint: "ray.python"},
		"long path":           {change: func(s *spec.ClusterSpec) { slurmspec.Of(s).TmpDir = "/tmp/" + strings.Repeat("long", 10) }, check: "paths", hint: "slurm.tmpDir"},
		"no tmpDir":           {change: func(s *spec.ClusterSpec) { slurmspec.Of(s).TmpDir = "/no/such" }, check: "slurm.tmpDir on node1", hint: "slurm.tmpDir"},
		"no cwd":              {change: func(s *spec.ClusterSpec) { s.Job.Cwd = "/no/such" }, check: "job.cwd on node1", hint: "job.workingDir"},
		"no outputDir":        {change: func(s *spec.ClusterSpec) { s.Job.OutputDir = file + "/{name}" }, check: "job.outputDir on node1", hint: "job.outputDir"},
		"clock":               {path: wrong, check: "clock", hint: "administrators"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := b.Dir()
			if test.dir != "" {
				dir = test.dir
			}
			with := b.beside
			if test.path != "" {
				with.Prefix = slices.Concat(with.Prefix, []string{"sh", "-c", `PATH="$0:$PATH"; exec "$@"`, test.path})
			}
			l := slurm.New(slurm.Config{Runner: with, Dir: dir})
			defer l.Close()
			s := b.named("doctor", "true")
			s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Nodelist: "node1"}})
			if test.change != nil {
				test.change(s)
			}
			var bad []string
			said := false
			for _, c := range l.Check(t.Context(), s) {
				if c.OK {
					said = said || strings.HasPrefix(c.Name+": "+c.Detail, test.says)
					continue
				}
				bad = append(bad, c.Name)
				if strings.Contains(c.Detail+c.Hint, "\n") || c.Name == test.check && !strings.Contains(c.Hint, test.hint) {
					t.Errorf("%+v", c)
				}
			}
			if test.check == "" && len(bad) > 0 || test.check != "" && !slices.Contains(bad, test.check) {
				t.Errorf("what fails: %q, want %q", bad, test.check)
			}
			if test.says != "" && !said {
				t.Errorf("no check says %q", test.says)
			}
		})
	}
	s := b.named("qos", "true")
	s.Sections = slurmspec.In(&slurmspec.Section{})
	b.elasticWith(s, "nope")
	if _, err := b.launcher().Launch(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "slurm.qos") {
		t.Errorf("a launch with a QOS of a group without nodes: %v (code %d)", err, launcher.ExitCode(err))
	}
	b.nothingLeft(t, "qos")
	crowded()
	if out, err := b.Cluster.Command(t.Context(), "", "rm", "-rf", "/dev/shm/rayctl").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if left, _ := filepath.Glob(b.Dir() + "/.doctor*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := b.StopController(); err != nil {
		t.Fatal(err)
	}
	if checks := b.launcher().Check(t.Context(), b.named("doctor", "true")); len(checks) != 1 || checks[0].OK || checks[0].Name != "controller" || !strings.Contains(checks[0].Hint, "slurmctld") {
		t.Errorf("without a controller: %+v", checks)
	}
	if err := b.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It refuses every request until the nodes have registered.
	if checks := b.launcher().Check(t.Context(), b.named("doctor", "true")); len(failing(checks)) > 0 {
		t.Errorf("when the controller has just started: %+v", checks)
	}
}

// crowded: where no node is free for the head, doctor checks a smaller part of one and reports that. It waits half a minute for the head's; the function that
// crowded returns waits for the result.
func (b *bed) crowded(t *testing.T) func() {
	g := b.waitFile(t)
	job, err := b.Submit(t.Context(), g.wait(), "--nodelist=node1", "--cpus-per-task=8", "--mem=8G", "--account=users")
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitJob(t, job, "RUNNING")
	s := b.named("crowded", "true")
	s.Head.CPUs, s.Sections = 12, slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Nodelist: "node1"}})
	done, full := make(chan []launcher.Check, 1), make(chan []launcher.Check, 1)
	go func() { done <- b.launcher().Check(t.Context(), s) }()
	whole, err := b.Submit(t.Context(), g.wait(), "--nodelist=node2", "--exclusive", "--account=users")
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitJob(t, whole, "RUNNING")
	other := b.named("full", "true")
	other.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Nodelist: "node2"}})
	go func() { full <- b.launcher().Check(t.Context(), other) }()
	return func() {
		checks := <-full
		said := slices.ContainsFunc(checks, func(c launcher.Check) bool {
			return c.Name == "node" && strings.HasPrefix(c.Detail, "not checked: no node of the default partition was free within 30 s")
		})
		if bad := failing(checks); len(bad) > 0 || !said {
			t.Errorf("on a node without room doctor finds %q: %+v", bad, checks)
		}
		checks = <-done
		said = slices.ContainsFunc(checks, func(c launcher.Check) bool {
			return c.Name == "node" && strings.Contains(c.Detail, "no node had") && strings.Contains(c.Detail, "--cpus-per-task=12")
		})
		if bad := failing(checks); len(bad) > 0 || !said || checks[len(checks)-1].Name != "clock" {
			t.Errorf("doctor finds %q: %+v", bad, checks)
		}
		g.create()
		b.AwaitJob(t, job, "COMPLETED")
		b.AwaitJob(t, whole, "COMPLETED")
	}
}

// elasticWith gives a cluster two elastic groups that begin without nodes, the second with this QOS: the cluster's own job says nothing about it.
func (b *bed) elasticWith(s *spec.ClusterSpec, qos string) {
	none, two := 0, 2
	for _, name := range []string{"a", "b"} {
		s.Workers = append(s.Workers, spec.WorkerGroup{Name: name, MinReplicas: &none, MaxReplicas: &two, NodeResources: smallNode()})
	}
	slurmspec.Of(s).Nodelist = "" // of which elastic groups cannot have one
	s.Workers[1].Sections = slurmspec.GroupIn(&slurmspec.Group{QOS: qos})
}
