package localspec_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

func mustDecode(t *testing.T, text string) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return s
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"packages", "launcher: local\nray: {python: /v}\nlocal: {packages: [jax]}", "rayctl installs packages only in environments that it makes"},
		{"elastic on an old Ray", "launcher: local\nray: {version: 2.40.0}\nworkers: [{name: a, maxReplicas: 2}]", "workers.a.maxReplicas: Ray 2.40.0 is too old for elastic groups here"},
		{"half a licence", "launcher: local\nworkers: [{name: a, maxReplicas: 2, resources: {licence: 0.5}}]", "workers.a.resources.licence: Ray's autoscaler cannot count 0.5 of it"},
		{"negative number of nodes", "local: {maxNodes: -1}", "local.maxNodes: -1 is negative"},
		{"package option", "local: {packages: [--index-url=x]}", "is not a package"},
		{"package with a password", "local: {packages: [\"x @ https://ann:hunter2@pypi.example/x.whl\"]}", "a password stands in an address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := spec.Validate(mustDecode(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestPackages: lists have the options that name files; lines of files, which have their origin behind them, may have all.
func TestPackages(t *testing.T) {
	for _, text := range []string{"requirements.txt", "[-r requirements.txt, -c pins.txt, -e ., 'ray[train]']", "['--extra-index-url https://example.org/simple  # r.txt:4']", "uv.lock"} {
		if err := spec.Validate(mustDecode(t, "launcher: local\nlocal: {packages: "+text+"}")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestHere: mounts that this machine cannot have are named, and nothing is made of those that it can.
func TestHere(t *testing.T) {
	dir := t.TempDir()
	s := mustDecode(t, "launcher: local\nmounts: ["+dir+", {mountPath: "+dir+"/new, source: {local: "+dir+"}}]")
	if problems := localspec.Here(s); len(problems) > 0 {
		t.Error(problems)
	}
	if _, err := os.Lstat(dir + "/new"); err == nil {
		t.Error("it makes the mount")
	}
	if err := os.Mkdir(dir+"/other", 0o700); err != nil {
		t.Fatal(err)
	}
	s = mustDecode(t, "launcher: local\nmounts: [/nosuch, {mountPath: "+dir+"/other, source: {local: "+dir+"}}, {mountPath: "+dir+"/a/b, source: {local: "+dir+"}}]")
	want := "mounts[0]: the source /nosuch is no directory of this machine: make it, or correct source.local\n" +
		"mounts[1]: " + dir + "/other exists on this machine, and is not " + dir + ": make it a link to " + dir + " yourself, or choose another mountPath\n" +
		"mounts[2]: " + dir + "/a/b cannot be made in " + dir + "/a: no such file or directory: make it"
	if got := localspec.Here(s).Error(); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestIgnored: what has no use on this machine is named once, with the reason; a file without it has no notes.
func TestIgnored(t *testing.T) {
	s := mustDecode(t, "head: {cpus: 1, gpus: 1, image: x}\nmounts: [{mountPath: /a, readOnly: true, source: {local: /a}}]\ngang: false\n"+
		"lifetime: {idleGpu: 10m}\nworkers: [{name: a, shm: 1Gi, cpus: 1500m, replicas: 2, minReplicas: 1}, {name: b, cpus: 2, shm: 1Gi, maxReplicas: 3}]")
	s = spec.For(s, "local")
	want := []string{
		"workers.a.shm and workers.b.shm are ignored: /dev/shm is the machine's; objectStoreMemory is the size of Ray's object store",
		"head.cpus is ignored: a head beside workers takes no tasks, and has no part of the machine to itself; `head: {on: head}` is enough to give it a node of its own",
		"head.gpus is ignored: a head beside workers takes no tasks, and has no part of the machine to itself; `head: {on: head}` is enough to give it a node of its own",
		"workers.a.cpus: 1.5 is rounded up to 2, because Ray counts whole CPUs",
		"gang: false is ignored: all required nodes start together on this machine",
		"lifetime.idleGpu is ignored: no group has gpus",
		"mounts[0].readOnly is ignored: without a container nothing is mounted, and the directory's own permissions decide whether it can be written",
		"head.image is ignored: nodes run in no containers here",
	}
	if got := spec.SubstrateOf("local").Ignored(s); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	plain := spec.For(mustDecode(t, "image: x\nhead: {cpus: 2, gpus: 1}\nlifetime: {idleGpu: 10m}"), "local")
	if got := spec.SubstrateOf("local").Ignored(plain); len(got) > 0 {
		t.Errorf("a head that is the whole cluster: %q", got)
	}
}
