package kuberay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestKueue: the real Kueue, in a namespace with a queue called "default", to which it gives everything that names none, the keeper's and the record's Jobs, too; in two
// where it holds everything and gives it no queue; and in one where it holds RayClusters alone, by their label. Each quota has room for one cluster of two small pods, and
// nothing beside it. The namespaces' subtests run side by side: most of their time passes by waiting for Kueue.
func TestKueue(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	all, doctor, words := b.another(t), b.another(t), b.another(t)
	b.StartKueue(t)
	b.KueueQueue(t, b.namespace, "default", "400m")
	for _, holds := range []bed{all, doctor} {
		holds.KueueQueue(t, holds.namespace, inQueue, "400m")
		holds.KueueHoldsAll(t, holds.namespace)
	}
	words.KueueQueue(t, words.namespace, inQueue, "400m")
	t.Run("Default", func(t *testing.T) {
		t.Parallel()
		t.Run("EarlyHead", b.kueueEarlyHead)
		t.Run("Elastic", b.kueueElastic)
		t.Run("Full", b.kueueFull)
	})
	t.Run("All", func(t *testing.T) {
		t.Parallel()
		t.Run("NoQueue", all.kueueNoQueue)
		t.Run("NoSuchQueue", all.kueueNoSuchQueue)
		t.Run("ClientDies", all.kueueClientDies)
		t.Run("HoldsAll", all.kueueHoldsAll)
	})
	t.Run("Doctor", func(t *testing.T) {
		t.Parallel()
		doctor.kueueDoctor(t)
	})
	t.Run("Words", func(t *testing.T) {
		t.Parallel()
		t.Run("Missing", words.kueueMissing)
		t.Run("TooSmall", words.kueueTooSmall)
		t.Run("Stopped", words.kueueStopped)
		t.Run("Preempted", words.kueuePreempted)
	})
}

// inQueue is the queue of the namespace where Kueue holds everything.
const inQueue = "research"

func withWorker(s *spec.ClusterSpec) *spec.ClusterSpec {
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
	return s
}

// kueueEarlyHead: Kueue holds a RayCluster until all of it is admitted, so that no head comes before the workers. doctor says so, the launch is refused, and
// nothing is left.
func (b bed) kueueEarlyHead(t *testing.T) {
	const held = "the head cannot start before the workers: Kueue holds RayClusters in namespace "
	b.nothingLeft(t, "held")
	s := withWorker(named("held", "echo never"))
	s.Head.Early = true
	fails(t, findings(t, b.l, s), "pods of the cluster", held)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, held+b.namespace+" until it admits them as a whole", "leave out head.early")
	b.awaitNothing(t, "held")
}

// kueueElastic: Kueue admits a RayCluster with an autoscaler as an elastic job, of which it admits each size. One that is
// not to be an elastic job is refused in Kueue's words, as by a Kueue without them (ElasticJobsViaWorkloadSlices).
func (b bed) kueueElastic(t *testing.T) {
	b.nothingLeft(t, "rigid")
	elastic := func(name, entrypoint string) *spec.ClusterSpec {
		s := withWorker(named(name, entrypoint))
		least, most := 1, 2
		s.Workers[0].MinReplicas, s.Workers[0].MaxReplicas = &least, &most
		return s
	}
	rigid := elastic("rigid", "echo never")
	rigid.Sections = kuberayspec.In(&kuberayspec.Section{Annotations: map[string]string{"kueue.x-k8s.io/elastic-job": "false"}})
	const said = "a kueue managed job can use autoscaling only when"
	fails(t, findings(t, b.l, spec.Copy(rigid)), "objects", said)
	_, err := b.l.Launch(t.Context(), rigid, launcher.Payload{})
	wantRefusal(t, err, runstate.CodePermission, said, "change workers[].minReplicas or kuberay.patch")
	b.awaitNothing(t, "rigid")
	b.begin(t, b.l, elastic("elastic", "echo ran")).wantEnd(t, "succeeded", 0, "ran\n")
}

// kueueFull: where another cluster has the quota, those that are launched at once wait with that reason. Their keepers and records take nothing of it: Kueue releases the
// keeper's Job as soon as it is there, and its pod waits for what the launch makes next, so that none fails. Each cluster runs, one after the other, once Kueue has taken
// the quota back from the first, which waits for it again, and has its next attempt when Kueue gives it back.
func (b bed) kueueFull(t *testing.T) {
	first := b.begin(t, b.l, withWorker(named("first", waitingDriver)))
	first.printed(t, "begun\n")
	var next []*watchedRun
	for i := range 2 {
		next = append(next, b.begin(t, b.l, withWorker(named(fmt.Sprintf("next-%d", i), "echo admitted"))))
	}
	for _, r := range next {
		r.until(t, "Kueue's reason", waitsForKueue)
	}
	b.wantNoGangs(t, append(next, first)...)
	b.wantListed(t, next...)
	b.setActive(t, first, false)
	first.until(t, "Kueue's reason", func(st launcher.Status) bool {
		return st.Phase == runstate.Suspended && strings.HasPrefix(st.Reason.Message, "Kueue has taken the cluster back to queue default")
	})
	for _, r := range next {
		r.wantEnd(t, "succeeded", 0, "admitted\n")
	}
	b.setActive(t, first, true)
	first.until(t, "the next attempt", func(st launcher.Status) bool {
		return st.Attempt == 2 && st.Job != nil && st.Job.State == runstate.JobRunning
	})
	b.release(t, first.id)
	first.wantEnd(t, "succeeded", 0, "begun\nbegun\ndone\n")
	if a := first.outcome.Result.Attempts; len(a) != 2 || a[0].Cause != runstate.CausePreempted {
		t.Errorf("attempts: %+v", a)
	}
	for _, r := range append(next, first) {
		b.wantOnePod(t, string(r.id), string(r.id)+"-record")
	}
}

// waitsForKueue is the status of a cluster whose keeper runs and for which the quota has no room.
func waitsForKueue(st launcher.Status) bool {
	return st.Phase == runstate.Queued && strings.HasPrefix(st.Reason.Message, "Kueue has not admitted the cluster to queue default yet: couldn't assign flavors to pod set ") &&
		strings.Contains(st.Reason.Message, "insufficient unused quota for cpu")
}

// wantNoGangs expects no gang's object, which would take room for pods that Kueue has not admitted.
func (b bed) wantNoGangs(t *testing.T, runs ...*watchedRun) {
	t.Helper()
	for _, r := range runs {
		if left := b.list(t, podGroups, r.id); len(left) > 0 {
			t.Errorf("Kueue admits %s as a whole, and it has %v", r.id, slices.Collect(maps.Keys(left)))
		}
	}
}

// wantListed expects of `ls` the reason that status has.
func (b bed) wantListed(t *testing.T, waiting ...*watchedRun) {
	t.Helper()
	all, err := b.l.List(t.Context(), launcher.Selector{Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range waiting {
		if !slices.ContainsFunc(all, func(st launcher.Status) bool { return st.Name == string(r.id) && waitsForKueue(st) }) {
			t.Errorf("%s is not listed as waiting: %+v", r.id, all)
		}
	}
}

// wantOnePod expects that the Jobs have had one pod each.
func (b bed) wantOnePod(t *testing.T, jobs ...string) {
	t.Helper()
	for _, job := range jobs {
		made, err := b.Core.CoreV1().Events(b.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Job,involvedObject.name=" + job + ",reason=SuccessfulCreate"})
		if err != nil || len(made.Items) != 1 {
			t.Errorf("pods of Job %s: %v, %v", job, made, err)
		}
	}
}

// setActive has Kueue evict a cluster that runs, as for one of higher priority, or admit it again.
func (b bed) setActive(t *testing.T, r *watchedRun, active bool) {
	t.Helper()
	resource, _ := schema.ParseResourceArg("workloads.v1beta2.kueue.x-k8s.io")
	workloads := b.Dynamic.Resource(*resource).Namespace(b.namespace)
	all, err := workloads.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all.Items {
		if strings.HasPrefix(w.GetName(), "raycluster-"+string(r.id)+"-") {
			change := fmt.Appendf(nil, `{"spec": {"active": %t}}`, active)
			if _, err := workloads.Patch(t.Context(), w.GetName(), types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// kueueMissing: a LocalQueue that does not exist fails doctor and is refused before anything is made, also where nothing but the RayCluster would wait in it.
func (b bed) kueueMissing(t *testing.T) {
	said := "there is no LocalQueue nosuch in namespace " + b.namespace
	b.nothingLeft(t, "missing")
	s := queued("missing", "echo never")
	s.Labels["kueue.x-k8s.io/queue-name"] = "nosuch"
	fails(t, findings(t, b.l, spec.Copy(s)), "queue", said)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, said, "set the label kueue.x-k8s.io/queue-name in labels to one that `kubectl get localqueues -n "+b.namespace+"` lists")
	b.NothingLeft(t, b.namespace, nil)
}

// kueueTooSmall: what the quota never has room for is refused with the numbers: before anything is made, or, for who may not read the quota, when Kueue has said so.
func (b bed) kueueTooSmall(t *testing.T) {
	name := kubetest.KueueClusterQueue(b.namespace)
	said := fmt.Sprintf("group w needs 600m cpu, and ClusterQueue %s has at most 400m cpu in flavor %[1]s", name)
	b.nothingLeft(t, "large")
	s := queued("large", "echo never")
	three := 3
	s.Workers[0].Replicas = &three
	fails(t, findings(t, b.l, spec.Copy(s)), "queue", said)
	_, err := b.l.Launch(t.Context(), spec.Copy(s), launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, said, "ask for less")
	b.NothingLeft(t, b.namespace, nil)
	user := b.limited(t, append(minimalRole(t), queueRole(t)...))
	if c := findings(t, user, spec.Copy(s))["queue"]; !c.OK || !strings.Contains(c.Detail, "not checked: you may not get clusterqueues.kueue.x-k8s.io") {
		t.Errorf("who may not read the quota: %+v", c)
	}
	_, err = user.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, "Kueue never admits the cluster to queue "+inQueue+" as the queue is now: ", "ask for less")
	if !strings.Contains(err.Error(), "> maximum capacity (400m)") {
		t.Errorf("without Kueue's numbers: %v", err)
	}
	b.NothingLeft(t, b.namespace, nil)
}

// queueRole are the rules that the guide's Role has for clusters in a queue of Kueue, as comments.
func queueRole(t *testing.T) (out []rbacv1.PolicyRule) {
	t.Helper()
	guide, err := os.ReadFile("../docs/kuberay-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(guide)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# - {apiGroups: [kueue.x-k8s.io], "); ok {
			var rule rbacv1.PolicyRule
			if err := kyaml.UnmarshalStrict([]byte("{apiGroups: [kueue.x-k8s.io], "+text), &rule); err != nil {
				t.Fatal(err)
			}
			out = append(out, rule)
		}
	}
	if len(out) != 2 {
		t.Fatalf("the guide has %v", out)
	}
	return out
}

// kueueStopped: a cluster in a queue whose ClusterQueue is stopped waits with Kueue's reason, of which who may not read it is told that; doctor fails. It runs when the
// queue is started again.
func (b bed) kueueStopped(t *testing.T) {
	name := kubetest.KueueClusterQueue(b.namespace)
	b.KueueStop(t, b.namespace, true)
	t.Cleanup(func() { b.KueueStop(t, b.namespace, false) })
	s := queued("stopped", "echo ran")
	fails(t, findings(t, b.l, spec.Copy(s)), "queue", "ClusterQueue "+name+" is inactive: Can't admit new workloads: is stopped")
	fails(t, findings(t, b.limited(t, append(minimalRole(t), queueRole(t)...)), spec.Copy(s)), "queue", "ClusterQueue "+name+" of LocalQueue "+inQueue+" is inactive")
	r := b.begin(t, b.l, s)
	const waits = "Kueue has not admitted the cluster to queue " + inQueue + " yet: "
	r.until(t, "Kueue's reason", func(st launcher.Status) bool {
		return st.Phase == runstate.Queued && strings.HasPrefix(st.Reason.Message, waits+"ClusterQueue "+name+" is ")
	})
	all, err := b.limited(t, minimalRole(t)).List(t.Context(), launcher.Selector{Whole: true})
	if err != nil || len(all) != 1 || all[0].Phase != runstate.Queued || all[0].Reason.Message != waits+"you may not list workloads.kueue.x-k8s.io, which say why" {
		t.Errorf("who may not read Kueue's reason: %+v, %v", all, err)
	}
	b.KueueStop(t, b.namespace, false)
	r.wantEnd(t, "succeeded", 0, "ran\n")
}

// kueuePreempted: a run that Kueue preempts for one of higher priority waits as queued, with Kueue's words, and has its next attempt after that one.
func (b bed) kueuePreempted(t *testing.T) {
	high := "high-" + b.namespace
	b.KueuePriority(t, high, 100)
	low := b.begin(t, b.l, queued("low", waitingDriver))
	low.printed(t, "begun\n")
	s := queued("high", waitingDriver)
	s.Labels["kueue.x-k8s.io/priority-class"] = high
	urgent := b.begin(t, b.l, s)
	low.until(t, "Kueue's reason", func(st launcher.Status) bool {
		return st.Phase == runstate.Queued && strings.HasPrefix(st.Reason.Message, "Kueue has taken the cluster back to queue "+inQueue+": Preempted to accommodate a workload")
	})
	urgent.printed(t, "begun\n")
	low.until(t, "no nodes", func(st launcher.Status) bool { // while the other one runs
		return st.Phase == runstate.Queued && st.Attempt == 2 && !slices.ContainsFunc(st.Allocations, func(a runstate.Allocation) bool { return a.State == runstate.AllocationGranted })
	})
	b.release(t, urgent.id)
	urgent.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	low.until(t, "the next attempt", func(st launcher.Status) bool {
		return st.Attempt == 2 && st.Job != nil && st.Job.State == runstate.JobRunning
	})
	b.release(t, low.id)
	low.wantEnd(t, "succeeded", 0, "begun\nbegun\ndone\n")
	if a := low.outcome.Result.Attempts; len(a) != 2 || a[0].Cause != runstate.CausePreempted {
		t.Errorf("attempts: %+v", a)
	}
}

var podGroups = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}

// kueueHoldsAll: where Kueue holds all Jobs, those of keeper and record are in their cluster's queue.
func (b bed) kueueHoldsAll(t *testing.T) {
	b.begin(t, b.l, queued("whole", "echo ran")).wantEnd(t, "succeeded", 0, "ran\n")
}

// queued is a cluster that names its queue.
func queued(name, entrypoint string) *spec.ClusterSpec {
	s := withWorker(named(name, entrypoint))
	s.Labels = map[string]string{"kueue.x-k8s.io/queue-name": inQueue}
	return s
}

// unqueued is a cluster whose keeper Kueue never admits.
func unqueued(name string) *spec.ClusterSpec {
	s := queued(name, "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperQueue: "nosuch"})
	return s
}

// kueueNoQueue: where Kueue holds all Jobs and nothing names a queue, the launch is refused with Kueue's setting and the key that helps, before it makes anything.
func (b bed) kueueNoQueue(t *testing.T) {
	const said = "Kueue holds all jobs of namespace "
	b.nothingLeft(t, "unnamed")
	s := withWorker(named("unnamed", "echo never"))
	fails(t, findings(t, b.l, spec.Copy(s)), "Kueue", said)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, said+b.namespace+" (manageJobsWithoutQueueName)", "set the label kueue.x-k8s.io/queue-name in labels")
	b.NothingLeft(t, b.namespace, nil)
}

// kueueNoSuchQueue: a keeper that Kueue does not admit has no RayCluster, which would run without it. lifetime.queue counts nevertheless.
func (b bed) kueueNoSuchQueue(t *testing.T) {
	const held = "Kueue has not admitted the keeper to queue nosuch yet"
	b.nothingLeft(t, "unheard")
	s := unqueued("unheard")
	s.Lifetime.Queue = units.Limit(20 * time.Second)
	said := false
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{Progress: func(p launcher.Progress) {
		if said = said || strings.Contains(p.Text, held); said {
			if rc := b.list(t, kubetest.RayClusters, "unheard"); len(rc) > 0 {
				t.Error("there is a RayCluster, and no keeper")
			}
		}
	}})
	wantRefusal(t, err, runstate.CodeQueueTimeout, held+": LocalQueue nosuch doesn't exist")
	if !said {
		t.Error("the launch did not say what it waits for")
	}
	b.NothingLeft(t, b.namespace, nil)
}

// kueueClientDies: what a client leaves that dies while Kueue holds its keeper takes no room; gc finds it once no client renews it any more, as the next launch of the
// name does, and `down` ends it at once.
func (b bed) kueueClientDies(t *testing.T) {
	for _, name := range []string{"orphan", "downed"} {
		b.dieInQueue(t, name)
	}
	if err := b.l.Terminate(t.Context(), "downed", launcher.End{Cause: "down"}); err != nil {
		t.Errorf("down: %v", err)
	}
	want := []launcher.Collected{{What: "launch", Name: "orphan", Why: "its client died before it had a keeper"}}
	finds := func(after time.Duration, found []launcher.Collected) {
		at := time.Now().Add(after)
		l := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig, Now: func() time.Time { return at }})
		if got, err := l.Reconcile(t.Context(), launcher.Scope{}); err != nil || !slices.Equal(got, found) {
			t.Errorf("gc after %s: %+v, %v, want %+v", after, got, err, found)
		}
	}
	finds(objects.StartDeadline-time.Minute, nil)
	finds(objects.StartDeadline+time.Minute, want)
	b.NothingLeft(t, b.namespace, nil)
}

// dieInQueue is a launch whose client dies while Kueue holds its keeper.
func (b bed) dieInQueue(t *testing.T, name string) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	defer die()
	b.nothingLeft(t, launcher.ID(name))
	g := b.newAPIProxy(t)
	g.set(func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if ctx.Err() != nil {
			cutConnection(w)
			return
		}
		pass.ServeHTTP(w, r)
	})
	_, err := g.launcher().Launch(ctx, unqueued(name), launcher.Payload{Progress: func(p launcher.Progress) {
		if strings.Contains(p.Text, "Kueue has not admitted the keeper") {
			die()
		}
	}})
	if launcher.ExitCode(err) != runstate.CodeInterrupted {
		t.Fatalf("the client of %s lives: %v", name, err)
	}
}

// kueueDoctor: doctor names what does not admit its Job, and leaves nothing, also where it is interrupted.
func (b bed) kueueDoctor(t *testing.T) {
	fails(t, findings(t, b.l, unqueued("checked")), "Kueue", "it has not admitted a small Job to queue nosuch within 20s: LocalQueue nosuch doesn't exist")
	b.NothingLeft(t, b.namespace, nil)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		b.l.Check(ctx, unqueued("interrupted"))
	}()
	kubetest.Await(t, "doctor's Job", func(ctx context.Context) error {
		jobs, err := b.Core.BatchV1().Jobs(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: "rayctl.io/doctor"})
		if err == nil && len(jobs.Items) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	interrupt()
	<-checked
	b.NothingLeft(t, b.namespace, nil)
	if c := findings(t, b.l, queued("good", "echo never"))["pods and DNS"]; !c.OK {
		t.Errorf("in a queue: %+v", c)
	}
	b.NothingLeft(t, b.namespace, nil)
}
