//go:build linux

package slurm_test

import (
	"bytes"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// allNodes: one cluster over every node of the site. A run on more nodes costs no step, no file and no request to the controller more. Questions that a client asks
// now and then, and those of TestLoad, depend on the time that a run takes, and are left out.
func (b *bed) allNodes(t *testing.T) {
	files2, requests2 := b.cost(t, "two", 2)
	files4, requests4 := b.cost(t, "four", 4)
	t.Logf("files: %d; requests: %v", len(files2), requests2)
	if !slices.Equal(files2, files4) {
		t.Errorf("files on 2 nodes: %q, on 4: %q", files2, files4)
	}
	if !maps.Equal(requests2, requests4) || requests2["REQUEST_JOB_STEP_CREATE"] != 1 {
		t.Errorf("requests on 2 nodes: %v, on 4: %v", requests2, requests4)
	}
}

// cost runs a driver on so many nodes, whose names it prints; it returns the files of the run, and what the controller was asked.
func (b *bed) cost(t *testing.T, name string, nodes int) (files []string, requests map[string]int) {
	t.Helper()
	exclusive := true
	s := b.named(name, `python -c 'import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print(*sorted(n["NodeManagerHostname"] for n in ray.nodes() if n["Alive"]))'`)
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Exclusive: &exclusive}})
	s.Head = spec.Head{}
	s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: &nodes, NodeResources: small()}}
	if err := b.ResetRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, isGone)
	if requests, err = b.Orders(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(b.run(id), func(path string, _ fs.DirEntry, err error) error {
		files = append(files, strings.TrimPrefix(path, b.run(id)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if oc, err := launcher.Attach(t.Context(), l, id, launcher.RunOptions{Stdout: &out}); err != nil || oc.Receipt.Exit.Code != 0 || len(slices.Compact(strings.Fields(out.String()))) != nodes {
		t.Errorf("output %q, want %d names; %+v, %v\n%s", out.String(), nodes, oc, err, b.story(t, id))
	}
	b.removed(t, l, id)
	return files, requests
}
