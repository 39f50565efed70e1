package kuberay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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

// TestKueue: the real Kueue, in a namespace with a queue called "default", to which it gives everything that names none, the keeper's and the record's Jobs, too; and
// in two where it holds everything and gives it no queue. Each quota has room for one cluster of two small pods, and nothing beside it. The namespaces' subtests run side
// by side: most of their time passes by waiting for Kueue.
func TestKueue(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	all, doctor := b.another(t), b.another(t)
	b.StartKueue(t)
	b.KueueQueue(t, b.namespace, "default", "400m")
	for _, holds := range []bed{all, doctor} {
		holds.KueueQueue(t, holds.namespace, inQueue, "400m")
		holds.KueueHoldsAll(t, holds.namespace)
	}
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
	s := withWorker(named("held", "echo never"))
	s.Head.Early = true
	fails(t, findings(t, b.l, s), "pods of the cluster", held)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, held+b.namespace+" until it admits them as a whole", "leave out head.early")
	b.awaitNothing(t, "held")
}

// kueueElastic: Kueue admits no RayCluster with an autoscaler (unless its ElasticJobsViaWorkloadSlices is on).
func (b bed) kueueElastic(t *testing.T) {
	s := withWorker(named("elastic", "echo never"))
	least, most := 1, 2
	s.Workers[0].MinReplicas, s.Workers[0].MaxReplicas = &least, &most
	const said = "a kueue managed job can use autoscaling only when"
	fails(t, findings(t, b.l, s), "objects", said)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodePermission, said, "change workers[].minReplicas or kuberay.patch")
	b.awaitNothing(t, "elastic")
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
	s := withWorker(named("unnamed", "echo never"))
	fails(t, findings(t, b.l, spec.Copy(s)), "Kueue", said)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, said+b.namespace+" (manageJobsWithoutQueueName)", "set the label kueue.x-k8s.io/queue-name in labels")
	b.NothingLeft(t, b.namespace, nil)
}

// kueueNoSuchQueue: a keeper that Kueue does not admit has no RayCluster, which would run without it. lifetime.queue counts nevertheless.
func (b bed) kueueNoSuchQueue(t *testing.T) {
	const held = "Kueue has not admitted the keeper to queue nosuch yet"
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
