package kuberay_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/test/raytest"
)

// daily are the verbs with which people work on a cluster. TestRolePerCommand has those that need no Ray on this machine; test/e2e has the same of a
// cluster on this machine and on Slurm.
func (u *user) daily(t *testing.T, name string) {
	t.Helper()
	u.succeeds(t, "NODE ", "top", "--launcher", "kuberay", name)
	u.succeeds(t, "Pending Demands", "exec", "--launcher", "kuberay", name, "--", "ray", "status")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	terminaltest.Shell(t, u.command(ctx, t, "exec", "--launcher", "kuberay", name))

	tree, back := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "back")
	if err := os.MkdirAll(filepath.Join(tree, "in ner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "in ner", "$(a)"), []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.succeeds(t, "", "cp", "--launcher", "kuberay", tree, name+":/tmp/daily")
	u.succeeds(t, "content\n", "exec", "--launcher", "kuberay", name, "--", "cat", "/tmp/daily/in ner/$(a)")
	u.succeeds(t, "", "cp", "--launcher", "kuberay", name+":/tmp/daily", back)
	if text, err := os.ReadFile(filepath.Join(back, "in ner", "$(a)")); string(text) != "content\n" {
		t.Errorf("copied back %q, %v", text, err)
	}
	u.copyOverLink(t, name)

	for id, stop := range map[string][]string{"named": {name, "named"}, "only": {name}} {
		u.succeeds(t, id+"\n", "submit", "--launcher", "kuberay", name, "--detach", "--submission-id", id, "--", "sleep", "600")
		u.succeeds(t, "", append([]string{"stop", "--launcher", "kuberay"}, stop...)...)
		u.succeeds(t, "STOPPED", "jobs", "--launcher", "kuberay", "-c", name, id)
	}
	u.raysTools(t, name)
}

// copyOverLink copies a file that was a link on the node at first: what that link named here keeps its content.
func (u *user) copyOverLink(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	secret, report := filepath.Join(dir, "hostname"), filepath.Join(dir, "report.txt")
	if err := os.WriteFile(secret, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.succeeds(t, "", "exec", "--launcher", "kuberay", name, "--", "sh", "-c", `mkdir -p "$1" && echo theirs > "$1/hostname" && ln -s "$1/hostname" /tmp/report.txt`, "sh", dir)
	for range 2 {
		u.succeeds(t, "", "cp", "--launcher", "kuberay", name+":/tmp/report.txt", report)
	}
	info, err := os.Lstat(report)
	text, rerr := os.ReadFile(report)
	if err != nil || rerr != nil || !info.Mode().IsRegular() || string(text) != "theirs\n" {
		t.Errorf("copied %v, %q, %v, %v", info, text, err, rerr)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "mine" {
		t.Errorf("written through a link: %q, %v", text, err)
	}
}

// raysTools work with what `rayctl env` prints, through a tunnel that serves also the next shell and ends with the cluster. The cluster's own programs are
// in its pods.
func (u *user) raysTools(t *testing.T, name string) {
	t.Helper()
	python := raytest.Env(t, raytest.Ray260)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", `eval "$($RAYCTL env --launcher kuberay $1)" && first=$RAY_API_SERVER_ADDRESS && eval "$($RAYCTL env --launcher kuberay $1)" &&
[ "$RAY_API_SERVER_ADDRESS" = "$first" ] && echo "address ${RAY_ADDRESS%%:*}, tools:$RAYCTL_ENV_BIN" && $RAY job list && $PYTHON -c '
import ray
ray.init(log_to_driver=False)
print("client", ray.util.client.ray.is_connected())'`, "sh", name)
	c.Env, c.Dir = append(slices.Clone(u.env), "RAYCTL="+u.rayctl, "PYTHON="+python, "RAY="+filepath.Join(filepath.Dir(python), "ray")), t.TempDir()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"address ray, tools:\n", "only", "client True"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("Ray's own tools lack %q: %s", want, out)
		}
	}
}
