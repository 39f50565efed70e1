package kuberay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
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
	t.Run("RayJob", func(t *testing.T) {
		u.succeeds(t, "\nnumber 1\nnumber 2\nnumber 3\n", "run", "-f", example(t, "kuberay-rayjob.yaml"))
	})
	t.Run("RayCluster", func(t *testing.T) {
		file := example(t, "kuberay-raycluster.yaml")
		u.succeeds(t, "", "up", "-f", file)
		u.succeeds(t, "manifest", "ls", "--launcher", "kuberay", "-l", "team=rl")
		u.succeeds(t, "hello from the ConfigMap", "submit", "manifest", "-f", file, "--", "cat", "/etc/greeting/greeting.txt")
		u.succeeds(t, "", "down", "manifest", "-f", file)
	})
	b.NothingLeft(t, b.namespace, func(object string) bool {
		return onlyRecords(object) || strings.HasPrefix(object, "persistentvolumeclaims/") || object == "secrets/registry" || object == "secrets/wandb"
	})
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

func (b bed) secret(t *testing.T, name string, kind corev1.SecretType, key, value string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: map[string]string{key: value}}
	if _, err := b.Core.CoreV1().Secrets(b.namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
