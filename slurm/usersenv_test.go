//go:build linux

package slurm_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// usersEnvironment: drivers have the umask of who submits, so that a team reads what they write, and the variables that are kept. setup, which needs one of these,
// brings Python, and doctor tries it in the same way; as the cluster may get many nodes, its GCS has settings for them. What rayctl writes is for the user alone. (The proxies do not answer: whatever of rayctl or Ray used them would fail.)
func (b *bed) usersEnvironment(t *testing.T) {
	user := *b
	user.Prefix = slices.Concat(b.Prefix, []string{"sh", "-c", `umask 0027; exec "$@"`, "sh"})
	user.Env = append(slices.Clone(b.Env), "KRB5CCNAME=FILE:/tmp/krb5cc_me", "http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "SITE_LICENCE=27000@a b'c", "OTHER=x")
	keep := []string{"SITE_LICENCE", "NOT_SET"}
	l := slurm.New(slurm.Config{Runner: user.beside, Dir: b.Dir(), Keep: keep})
	defer l.Close()
	s := user.named("shared", `umask; echo "$KRB5CCNAME $https_proxy $SITE_LICENCE ${OTHER-gone} ${NOT_SET-unset}"; echo 1 > $RAYCTL_OUTPUT_DIR/model
		for pid in $(pgrep -x gcs_server); do tr '\0' '\n' </proc/$pid/environ; done | sort -u | grep -E '^RAY_(gcs_server_request_timeout_seconds|worker_register_timeout_seconds)='`)
	s.Ray.Python, s.Setup = b.pythonOfSetup(t)
	s.Env = map[string]string{"RAY_worker_register_timeout_seconds": "99"} // the user's own
	none, many := 0, burst-1
	s.Workers = []spec.WorkerGroup{{Name: "w", MinReplicas: &none, Replicas: &none, MaxReplicas: &many, NodeResources: small()}}
	if bad := failing(l.Check(t.Context(), s)); len(bad) == 0 {
		t.Error("doctor finds nothing wrong with a setup that lacks a variable")
	}
	s.Sections = slurmspec.In(&slurmspec.Section{KeepEnv: keep})
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q", bad)
	}
	s.Job.OutputDir = filepath.Join(b.Cluster.Dir, "shared", "team", "models")
	r := user.beginBy(t, l, s, launcher.Payload{})
	r.ended(0, "succeeded", "")
	if want := "0027\nFILE:/tmp/krb5cc_me http://127.0.0.1:9 27000@a b'c gone unset\n" +
		"RAY_gcs_server_request_timeout_seconds=120\nRAY_worker_register_timeout_seconds=99\n"; r.out.String() != want {
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

// burst is from how many nodes on a GCS has settings for many (MANY in keeper/rayctl_keeper/node/start/burst.py).
const burst = 32

// pythonOfSetup is a Python with Ray that only setup puts into the PATH, and only where the job has what the user keeps.
func (b *bed) pythonOfSetup(t *testing.T) (python, setup string) {
	t.Helper()
	dir := filepath.Join(b.Cluster.Dir, "shared", "of-setup")
	program := "#!/bin/sh\nexec " + b.python + ` "$@"` + "\n"
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "python-of-setup"), []byte(program), 0o755)); err != nil {
		t.Fatal(err)
	}
	return "python-of-setup", `[ "$SITE_LICENCE" ]; export PATH=` + dir + ":$PATH"
}
