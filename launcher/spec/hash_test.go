package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

func TestHashAndDiff(t *testing.T) {
	base := "launcher: slurm\nname: a\nworkers: [{name: t, replicas: 4}]\njob: {entrypoint: x, workingDir: /a, pyModules: [/m]}\nslurm: {host: login1, partition: gpu}\nsecrets: [{name: T, file: /f}]\n"
	a := mustDecode(t, base)
	for _, c := range []struct {
		name, from, to string
		want           []string
	}{
		{"same", "", "", nil},
		{"name", "name: a", "name: b", nil},
		{"login node", "login1", "login2", nil},
		{"checkout", "workingDir: /a", "workingDir: /b", nil},
		{"secret's file", "file: /f", "file: /g", nil},
		{"default written out", "slurm: {", "gang: true\nlifetime: {keep: 7d}\nslurm: {transport: ssh, nodeLogs: onFailure, ", nil},
		{"unused section", "slurm: {", "kuberay: {queue: q}\ngpuTypes: {x: {}}\nslurm: {", nil},
		{"replicas", "replicas: 4", "replicas: 8", []string{"workers.t.replicas: 4 -> 8", "workers.t.minReplicas: 4 -> 8", "workers.t.maxReplicas: 4 -> 8"}},
		{"remote directory", "workingDir: /a", "workingDir: s3://b", []string{"job.workingDir: (from the client) -> s3://b"}},
		{"no directory", ", workingDir: /a", "", []string{"job.workingDir: (from the client) -> not set"}},
		{"new key", "slurm: {", "slurm: {account: rl, ", []string{"slurm.account: not set -> rl"}},
		{"secret", "name: T", "name: U", []string{"secrets.T.name: T -> not set", "secrets.U.name: not set -> U"}},
		{"command", "entrypoint: x", "entrypoint: y", []string{"job.entrypoint: x -> y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := mustDecode(t, strings.Replace(base, c.from, c.to, 1))
			if d := cmp.Diff(c.want, spec.Diff(a, b)); d != "" {
				t.Error(d)
			}
			if (spec.Hash(a) == spec.Hash(b)) != (c.want == nil) {
				t.Error("hash and difference do not agree")
			}
		})
	}
	if len(spec.Hash(a)) != 64 {
		t.Errorf("hash %q", spec.Hash(a))
	}
}

func TestHashChangesNothing(t *testing.T) {
	a := mustDecode(t, design)
	before := spec.Copy(a)
	spec.Hash(a)
	if d := spec.Diff(a, before); len(d) > 0 || a.Name != before.Name || slurmspec.Of(a).Host != "login1" {
		t.Errorf("changed: %v", d)
	}
}

func TestDefaultTwice(t *testing.T) {
	for _, launcher := range append(spec.Launchers(), "") {
		s := mustDecode(t, design)
		s.Launcher = launcher
		spec.Default(s)
		once, err := spec.Leaves(s)
		if err != nil {
			t.Fatal(err)
		}
		spec.Default(s)
		twice, err := spec.Leaves(s)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(once, twice); d != "" {
			t.Errorf("%s: %s", launcher, d)
		}
	}
}

func TestNodeGroups(t *testing.T) {
	for _, c := range []struct {
		name, text, want   string
		nodes, gang, gpuss int
	}{
		{"alone", "launcher: local", "head*:1", 1, 1, 0},
		{"alone on Kubernetes", "launcher: kuberay", "head*:1", 1, 1, 0},
		{"first group", "launcher: local\nworkers: [{name: a, replicas: 2}, {name: b, gpus: 2}]", "a*:2 b:1", 3, 3, 2},
		{"named group", "launcher: slurm\nhead: {on: b}\nworkers: [{name: a, replicas: 2}, {name: b}]", "b*:1 a:2", 3, 3, 0},
		{"own node", "launcher: slurm\nhead: {cpus: 4}\nworkers: [{name: a, replicas: 2}]", "head*-:1 a:2", 3, 3, 0},
		{"own pod", "launcher: kuberay\nworkers: [{name: a, replicas: 3, minReplicas: 1, gpus: 1}]", "head*-:1 a:3", 4, 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustDecode(t, c.text)
			spec.Default(s)
			var got []string
			for _, g := range s.NodeGroups() {
				x := g.Name
				if g.Head {
					x += "*"
				}
				if !g.Tasks {
					x += "-"
				}
				got = append(got, x+":"+string(rune('0'+g.Count)))
			}
			if x := strings.Join(got, " "); x != c.want || s.TotalNodes() != c.nodes || s.GangNodes() != c.gang || s.TotalGPUs() != c.gpuss {
				t.Errorf("%s, %d nodes, gang of %d, %d GPUs", x, s.TotalNodes(), s.GangNodes(), s.TotalGPUs())
			}
		})
	}
}
