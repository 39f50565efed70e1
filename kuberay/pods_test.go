package kuberay_test

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestHeadPodDeleted: KubeRay makes another head, which has no record of the job.
func TestHeadPodDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.run(t, b.l, job("beheaded", waitingDriver))
	r.printed(t, "begun\n")
	b.DeletePods(t, b.namespace, "ray.io/cluster=beheaded,ray.io/node-type=head", 0)
	if e := r.wantEnd(t, "lost", runstate.CodeLost, "begun\n"); !e.Retryable || !strings.Contains(e.Message, "head") {
		t.Errorf("a lost head is retryable and named: %+v", e)
	}
}

// TestKeeperKilledAgain kills the keeper's process three times and its pod once, in `make conformance` seven times and three times: the run, which has a working
// directory, a runtime environment and a secret, goes on, with its output whole and an account as if there had been one keeper. Kubernetes takes 10, 20 and 40 s to
// make another pod; until then DNS does not resolve the keeper's name. Later keepers, in the same pod and in another, know that the run's limit was moved.
// Then the client's credentials expire.
func TestKeeperKilledAgain(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s, pay := whole(t, "tough")
	s.Lifetime.Queue, s.Lifetime.Max = units.Limit(time.Hour), units.Limit(10*time.Minute)
	g := b.newGate(t)
	r := b.runWith(t, g.launcher(), s, pay)
	r.printed(t, "begun\n")
	b.wantFirstStatus(t, r.id)
	b.awaitNote(t, r.id)
	end := b.extends(t, r.id)
	begun := time.Now()
	kills := 4
	if conformance.Whole() {
		kills = 10
	}
	for i := range kills {
		pod, pid := b.keeperProcess(t, r.id)
		if i%3 == 2 {
			b.DeletePods(t, b.namespace, "rayctl.io/role=keeper,rayctl.io/name=tough", 0)
		} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill the keeper of pod %s: %v", pod, err)
		}
		kubetest.Await(t, "another keeper", func(context.Context) error {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				return fmt.Errorf("process %d is still there", pid)
			}
			return nil
		})
		if i == 1 || i == 2 {
			end = b.sameEnd(t, r.id, end)
		}
	}
	b.keeperProcess(t, r.id)
	g.credentialsExpire(t, r)
	ran := time.Since(begun).Seconds()
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "packed enveloped hidden\nbegun\ndone\n")
	r.wantOneAccount(t, ran)
}

// whole is a launch as the command makes it: working directory, runtime environment, secret.
func whole(t *testing.T, name string) (*spec.ClusterSpec, launcher.Payload) {
	t.Helper()
	return wholeWith(t, name, nil)
}

// wholeWith is whole with another file of that content in the working directory.
func wholeWith(t *testing.T, name string, other []byte) (*spec.ClusterSpec, launcher.Payload) {
	t.Helper()
	s := job(name, `echo "$(cat word.txt) $WORD $HIDDEN"; `+waitingDriver)
	s.Secrets = []spec.Secret{{Name: "HIDDEN"}}
	path, uri := filepath.Join(t.TempDir(), "package.zip"), "gcs://_ray_pkg_0123456789abcdef.zip"
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(file)
	w, err := z.Create("word.txt")
	if err == nil {
		_, err = w.Write([]byte("packed"))
	}
	if err == nil && other != nil {
		if w, err = z.Create("other"); err == nil {
			_, err = w.Write(other)
		}
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	packages := &launcher.Packages{
		Files:      []launcher.PackageFile{{URI: uri, Path: path, Size: info.Size()}},
		RuntimeEnv: map[string]any{"working_dir": uri, "env_vars": map[string]any{"WORD": "enveloped"}},
	}
	return s, launcher.Payload{
		Packages: func(context.Context) (*launcher.Packages, error) { return packages, nil },
		Secrets:  map[string]string{"HIDDEN": "hidden"},
	}
}

// wantFirstStatus: the first status of a new watcher already has the keeper's state.
func (b bed) wantFirstStatus(t *testing.T, id launcher.ID) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	statuses, err := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig}).Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	st := <-statuses
	if st.Job == nil || st.Job.State != runstate.JobRunning || len(st.Nodes) == 0 || len(st.Timeline) == 0 || st.Phase != runstate.Ready {
		t.Errorf("the first status: %+v", st)
	}
}

// wantOneAccount: the receipt of a run that had several keepers, and whose driver ran for at least so many seconds.
func (r *running) wantOneAccount(t *testing.T, ran float64) {
	t.Helper()
	receipt, seen := r.outcome.Receipt, map[string]int{}
	for _, e := range receipt.Timeline {
		seen[e.Kind+" "+e.To]++
	}
	for _, once := range []string{"phase Starting", "phase Ready", "commit ", "job RUNNING", "job SUCCEEDED", "phase Gone"} {
		if seen[once] != 1 {
			t.Errorf("%q is %d times in the timeline", once, seen[once])
		}
	}
	if seen["keeper resumed"] == 0 || len(receipt.Attempts) != 1 {
		t.Errorf("keepers %d, attempts %+v", seen["keeper resumed"], receipt.Attempts)
	}
	if receipt.Durations.Driver < ran || receipt.Usage.BusyNodeSeconds < ran || receipt.Log.Bytes == 0 || len(receipt.Log.Missing) > 0 {
		t.Errorf("the driver ran for %.1f s at least: %+v, %+v, %+v", ran, receipt.Durations, receipt.Usage, receipt.Log)
	}
	if t.Failed() {
		t.Logf("timeline: %+v", receipt.Timeline)
	}
}

// TestRayClusterDeleted: somebody deletes the RayCluster before Ray is up. No head will ever answer the keeper, in a pod or here. Pods that never
// ran cost nothing.
func TestRayClusterDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	queue := b.tinyQueue(t)
	for name, keeper := range map[string]string{"kept": "", "unkept": "none"} {
		s := job(name, "echo never")
		s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: queue, Keeper: keeper})
		r := b.run(t, b.l, s)
		r.until(t, "word of the queue's limit", func(st launcher.Status) bool { return st.Reason.Code == "QueueFull" })
		if err := b.Dynamic.Resource(kubetest.RayClusters).Namespace(b.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := r.wantEnd(t, "lost", runstate.CodeLost, ""); !strings.Contains(e.Message, "RayCluster was deleted: "+b.namespace+"/"+name) {
			t.Errorf("exit %+v", e)
		}
		if u := r.outcome.Receipt.Usage; keeper == "" && (u.Nodes != 1 || u.NodeSeconds != 0) {
			t.Errorf("pods that never ran are charged: %+v", u)
		}
	}
}

// TestRayClusterDeletedWhileRunning: the end names the RayCluster, not a head that does not answer.
func TestRayClusterDeletedWhileRunning(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.run(t, b.l, job("razed", waitingDriver))
	r.printed(t, "begun\n")
	if err := b.Dynamic.Resource(kubetest.RayClusters).Namespace(b.namespace).Delete(t.Context(), "razed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := r.wantEnd(t, "lost", runstate.CodeLost, "begun\n"); !e.Retryable || !strings.Contains(e.Message, "RayCluster was deleted: "+b.namespace+"/razed") {
		t.Errorf("exit %+v", e)
	}
}

// TestKeeperJobDeleted: somebody deletes the Job, and with it everything except the record, whose result then names that cause.
func TestKeeperJobDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.run(t, b.l, job("forgotten", waitingDriver))
	r.printed(t, "begun\n")
	if err := b.Core.BatchV1().Jobs(b.namespace).Delete(t.Context(), string(r.id), metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	if e := r.wantEnd(t, "lost", runstate.CodeLost, "begun\n"); !strings.Contains(e.Message, "the keeper was deleted") {
		t.Errorf("exit %+v", e)
	}
}

// keeperProcess waits for the keeper's process, which is one of this machine.
func (b bed) keeperProcess(t *testing.T, id launcher.ID) (pod string, pid int) {
	t.Helper()
	return b.roleProcess(t, id, "keeper", "\x00/rayctl/keeper.pyz\x00pod-keeper\x00")
}

// roleProcess waits for a process in the pods of a role.
func (b bed) roleProcess(t *testing.T, id launcher.ID, role, part string) (pod string, pid int) {
	t.Helper()
	return b.process(t, "rayctl.io/role="+role+",rayctl.io/name="+string(id), part)
}

// process waits for a process in the pods with these labels, with a part of its command line.
func (b bed) process(t *testing.T, selector, part string) (pod string, pid int) {
	t.Helper()
	kubetest.Await(t, "a process in the pods "+selector, func(ctx context.Context) error {
		pods, err := b.Core.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				if pod, pid = p.Name, processOf(string(p.UID), part); pid > 0 {
					return nil
				}
			}
		}
		return fmt.Errorf("it runs in none of %d pods", len(pods.Items))
	})
	return pod, pid
}

// processOf finds the process of a pod with a part of its command line, whose arguments end with NUL; 0: none.
func processOf(uid, part string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(groups), "pod"+uid) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || !strings.Contains(string(command), part) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		return pid
	}
	return 0
}

// awaitNote waits until later keepers can know that the job was submitted.
func (b bed) awaitNote(t *testing.T, id launcher.ID) {
	t.Helper()
	kubetest.Await(t, "the note of the submission", func(ctx context.Context) error {
		secret, err := b.Core.CoreV1().Secrets(b.namespace).Get(ctx, string(id)+"-rayctl", metav1.GetOptions{})
		if err == nil && string(secret.Data["submitted"]) != "1" {
			err = errors.New("it is not there")
		}
		return err
	})
}

// TestNamespaceDeleted: the run and its record are deleted with their namespace, and the client reports that; no new run starts there.
func TestNamespaceDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.run(t, b.l, job("homeless", waitingDriver))
	r.printed(t, "begun\n")
	// A finalizer of somebody else keeps the namespace in its end.
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ConfigMap, metadata: {name: stays, finalizers: [example.com/stays]}}`)
	if err := b.Core.CoreV1().Namespaces().Delete(t.Context(), b.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		patch := []byte(`{"metadata": {"finalizers": null}}`)
		if _, err := b.Core.CoreV1().ConfigMaps(b.namespace).Patch(context.Background(), "stays", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
	e, _ := r.ended(t)
	if e.Code != runstate.CodeLost || !strings.Contains(e.Message, "deleted") {
		t.Errorf("exit %+v", e)
	}
	_, err := b.l.Launch(t.Context(), job("late", "echo never"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("launch: code %d: %v", launcher.ExitCode(err), err)
	}
}
