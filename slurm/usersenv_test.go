//go:build linux

package slurm_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// usersEnvironment: drivers have the umask of who submits, so that a team reads what they write, and the variables that are kept. What rayctl writes is
// for the user alone. (The proxies do not answer: whatever of rayctl or Ray used them would fail.)
func (b *bed) usersEnvironment(t *testing.T) {
	user := *b
	user.Prefix = slices.Concat(b.Prefix, []string{"sh", "-c", `umask 0027; exec "$@"`, "sh"})
	user.Env = append(slices.Clone(b.Env), "KRB5CCNAME=FILE:/tmp/krb5cc_me", "http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "SITE_LICENCE=27000@a b'c", "OTHER=x")
	keep := []string{"SITE_LICENCE", "NOT_SET"}
	l := slurm.New(slurm.Config{Runner: user.beside, Dir: b.Dir(), Keep: keep})
	defer l.Close()
	s := user.named("shared", `umask; echo "$KRB5CCNAME $https_proxy $SITE_LICENCE ${OTHER-gone} ${NOT_SET-unset}"; echo 1 > $RAYCTL_OUTPUT_DIR/model`)
	s.Sections = slurmspec.In(&slurmspec.Section{KeepEnv: keep})
	s.Job.OutputDir = filepath.Join(b.Cluster.Dir, "shared", "team", "models")
	r := user.beginBy(t, l, s, launcher.Payload{})
	r.ended(0, "succeeded", "")
	if want := "0027\nFILE:/tmp/krb5cc_me http://127.0.0.1:9 27000@a b'c gone unset\n"; r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(s.Job.OutputDir): 0o750, s.Job.OutputDir: 0o750, filepath.Join(s.Job.OutputDir, "model"): 0o640} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info, err, want)
		}
	}
	if left := r.outcome.Receipt.OutputDir; left != s.Job.OutputDir {
		t.Errorf("the receipt has output in %q", left)
	}
	var found bytes.Buffer
	code, err := l.ExecOnHost(t.Context(), launcher.ExecRequest{Command: []string{"ls", s.Job.OutputDir}, Stdout: &found})
	if code != 0 || err != nil || found.String() != "model\n" {
		t.Errorf("the results: code %d, %v, %q", code, err, found.String())
	}
	err = filepath.WalkDir(b.run(r.id), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && filepath.Base(path) != "slurm.out" {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	r.forgotten()
}
