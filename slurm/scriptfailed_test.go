//go:build linux

package slurm_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/oldpython"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// cannotStart: the error of a batch script that cannot start the keeper names that cause, with the script's output and its file.
func (b *bed) cannotStart(t *testing.T) {
	shared := b.Cluster.Dir + "/shared/"
	file := func(name, text string, mode os.FileMode) string {
		if err := os.WriteFile(shared+name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return shared + name
	}
	login := b.onPython36(t)
	for name, test := range map[string]struct{ python, words string }{
		"s-missing":    {shared + "nosuch/bin/python", "No such file or directory"},
		"s-no-program": {file("s-text", "#!/bin/sh\n", 0o644), "Permission denied"},
		"s-old":        {b.python36, "is Python 3.6, and rayctl needs 3.8 or later"},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.named(name, "echo never")
			s.Ray.Python = test.python
			login.begin(t, s, launcher.Payload{}).notStarted(test.words)
		})
	}
	t.Run("doctor", func(t *testing.T) { login.doctorFindsOld(t) })
	t.Run("s-no-python", b.noPython)
	t.Run("s-slow", func(t *testing.T) { // as the pull of a large image is
		s := b.named("s-slow", "echo never")
		s.Setup, s.Lifetime.Start = "sleep 1000", units.Limit(2*time.Second)
		r := b.begin(t, s, launcher.Payload{})
		r.ended(runstate.CodeStartFailed, "start-failed", "Ray was not up within lifetime.start (2s)")
		r.forgotten()
	})
}

// doctorFindsOld: doctor reports the same about a node's Python beforehand.
func (b *bed) doctorFindsOld(t *testing.T) {
	s := b.named("s-old", "echo never")
	s.Ray.Python = b.python36
	want := []string{`python on node1: it reports "3.6", and 3.8 or later is needed`} // Ray is looked for by a Python that can
	var found []string
	for _, c := range b.launcher().Check(t.Context(), s) {
		if !c.OK {
			found = append(found, c.Name+": "+c.Detail)
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("doctor finds %q, want %q", found, want)
	}
}

// onPython36 is the bed of a user whose python3, on the login node too, is a 3.6.
func (b *bed) onPython36(t *testing.T) *bed {
	t.Helper()
	dir, err := os.MkdirTemp(b.Cluster.Dir+"/shared", "python36-")
	if err != nil {
		t.Fatal(err)
	}
	if err := oldpython.As(b.python36, dir); err != nil {
		t.Fatal(err)
	}
	other := *b
	other.Env = append(slices.Clone(b.Env), "PATH="+dir+":"+slurmtest.SearchPath)
	return &other
}

// noPython: the login node has a python3, and the nodes have none.
func (b *bed) noPython(t *testing.T) {
	bin := b.Cluster.Dir + "/shared/bin"
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"python3", "sh", "env", "sbatch", "squeue", "scancel"} {
		out, err := b.beside.Command(t.Context(), "sh", "-c", `readlink -f "$(command -v "$1")"`, "sh", name).Output()
		if err == nil {
			err = os.Symlink(strings.TrimSpace(string(out)), filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other := *b
	other.Env = append(slices.Clone(b.Env), "PATH="+bin)
	open := b.closePartition(t)
	s := b.named("s-no-python", "echo never")
	s.Ray.Python = ""
	r := other.begin(t, s, launcher.Payload{})
	r.until("waiting", func(s launcher.Status) bool { return s.Phase == runstate.Queued && s.Where != "" })
	if err := os.Remove(filepath.Join(bin, "python3")); err != nil {
		t.Error(err)
	}
	open()
	r.notStarted("python3: not found")
}

func (r *begun) notStarted(words string) {
	r.t.Helper()
	receipt := r.ended(runstate.CodeStartFailed, "start-failed", words)
	for _, part := range []string{filepath.Join(r.run(r.id), "slurm.out"), "correct ray.python"} {
		if !strings.Contains(receipt.Exit.Message, part) {
			r.t.Errorf("%q does not name %s", receipt.Exit.Message, part)
		}
	}
	r.forgotten()
}
