package kuberay_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/readme"
)

// TestExamples runs examples/kuberay-*.yaml as users do, the image of the private registry aside, which is nowhere.
func TestExamples(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	u := newUser(t, b.kubeconfig)
	t.Run("gang", func(t *testing.T) {
		fetched := filepath.Join(t.TempDir(), "fetched")
		a := u.succeeds(t, "\n1 in headgroup\n1 in reward\n1 in rollout\n2 in trainer\nGPUs: 3\n", "run", "-f", example(t, "kuberay-gang.yaml"), "--fetch", fetched)
		if text, err := os.ReadFile(filepath.Join(fetched, "groups.json")); !strings.Contains(string(text), `"headgroup": 1`) || strings.Count(a.notes, "copied ") != 1 {
			t.Errorf("fetched from the pods before their end: %q, %v\n%s", text, err, a.notes)
		}
	})
	t.Run("early head", func(t *testing.T) {
		a := u.succeeds(t, "\n1 in headgroup\n2 in trainer\nGPUs: 2\n", "run", "-f", example(t, "kuberay-early-head.yaml"))
		if !strings.HasPrefix(a.out, "==> job.prepare <==\nweights are loaded here\n==> driver <==\n") {
			t.Errorf("output %q", a.out)
		}
	})
	t.Run("pvc", func(t *testing.T) {
		models, runs := b.claim(t, "models"), b.claim(t, "runs")
		if err := os.WriteFile(filepath.Join(models, "weights"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		a := u.succeeds(t, "\n1 in headgroup\n", "run", "-f", example(t, "kuberay-pvc.yaml"), "--name", "stored")
		if !strings.HasPrefix(a.out, "weights\n") {
			t.Errorf("output %q", a.out)
		}
		if text, err := os.ReadFile(filepath.Join(runs, "stored", "groups.json")); string(text) != `{"headgroup": 1}` {
			t.Errorf("%q, %v", text, err)
		}
		const next = "`rayctl up -f FILE --name stored-files` mounts it again, where FILE is the cluster file, then `rayctl cp stored-files:PATH DST` copies from it"
		if a := u.does(t, "cp", "--launcher", "kuberay", "stored:", "here"); a.code != runstate.CodeSpec || !strings.Contains(a.notes, next) {
			t.Errorf("cp after the end: code %d, %s", a.code, a.notes)
		}
		b.nothingLeft(t, "stored-files")
		u.succeeds(t, "", "up", "-f", example(t, "kuberay-pvc.yaml"), "--name", "stored-files")
		copied := filepath.Join(t.TempDir(), "groups.json")
		u.succeeds(t, "", "cp", "--launcher", "kuberay", "stored-files:/runs/stored/groups.json", copied)
		if text, err := os.ReadFile(copied); string(text) != `{"headgroup": 1}` {
			t.Errorf("copied: %q, %v", text, err)
		}
		u.daily(t, "stored-files")
		u.succeeds(t, "", "down", "--launcher", "kuberay", "stored-files")
	})
	t.Run("private registry", func(t *testing.T) {
		b.secret(t, "registry", corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths": {"registry.example.com": {"auth": "dXNlcjpwYXNz"}}}`)
		b.secret(t, "wandb", corev1.SecretTypeOpaque, "api-key", "a-key")
		u.succeeds(t, "1 in headgroup\n", "run", "-f", example(t, "kuberay-private-registry.yaml"), "--image", "rayproject/ray:2.60.0", "--set", "kuberay.keeperImage=rayproject/ray:2.60.0")
	})
	t.Run("README", func(t *testing.T) { b.readme(t, u) })
	t.Run("RayJob", func(t *testing.T) {
		u.succeeds(t, "\nnumber 1\nnumber 2\nnumber 3\n", "run", "-f", example(t, "kuberay-rayjob.yaml"))
	})
	t.Run("RayCluster", func(t *testing.T) {
		file := example(t, "kuberay-raycluster.yaml")
		b.nothingLeft(t, "manifest")
		u.succeeds(t, "", "up", "-f", file)
		u.succeeds(t, "manifest", "ls", "--launcher", "kuberay", "-l", "team=rl")
		u.succeeds(t, "hello from the ConfigMap", "submit", "manifest", "-f", file, "--", "cat", "/etc/greeting/greeting.txt")
		u.succeeds(t, "", "down", "manifest", "-f", file)
	})
	b.NothingLeft(t, b.namespace, func(object string) bool {
		return onlyRecords(object) || strings.HasPrefix(object, "persistentvolumeclaims/") || object == "secrets/registry" || object == "secrets/wandb"
	})
}

// readme repeats the session of README.md, in the bed's namespace.
func (b bed) readme(t *testing.T, u *user) {
	t.Helper()
	sessions, err := readme.Sessions("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const shown = "rl" // the namespace there
	dir, session := t.TempDir(), sessions["On Kubernetes"]
	session.Write(func(name, text string) {
		text = strings.ReplaceAll(text, "namespace: "+shown, "namespace: "+b.namespace)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if len(session.Steps) == 0 {
		t.Fatal("README.md has no session on Kubernetes")
	}
	for _, step := range session.Steps {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		c := exec.CommandContext(ctx, "sh", "-c", step.Command)
		c.Dir, c.Env = dir, append(slices.Clone(u.env), "PATH="+filepath.Dir(u.rayctl)+":"+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", step.Command, err, out)
		}
		if differs := step.Differs(strings.ReplaceAll(string(out), b.namespace, shown)); differs != "" {
			t.Error(differs)
		}
	}
}

// claim makes a claim that is bound to a directory of this machine, and returns that.
func (b bed) claim(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // pods write as another user
		t.Fatal(err)
	}
	volume := b.namespace + "-" + name
	b.Create(t, "", fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  hostPath: {path: %s}`, volume, dir))
	t.Cleanup(func() {
		if err := b.Core.CoreV1().PersistentVolumes().Delete(context.Background(), volume, metav1.DeleteOptions{}); err != nil {
			t.Logf("the volume stays: %v", err)
		}
	})
	b.Create(t, b.namespace, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: %s
  resources: {requests: {storage: 1Gi}}`, name, volume))
	return dir
}

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
