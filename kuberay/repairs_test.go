package kuberay

import (
	"testing"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// old is the metadata of what was created so long ago.
func old(age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "c", UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-age))}
}

// TestSuspendedJobOfALivingClientStays: a Job that is suspended is left alone as long as its client may live: under Kueue as long as that moves the deadline.
func TestSuspendedJobOfALivingClientStays(t *testing.T) {
	suspended := func(age time.Duration) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: old(age), Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	}
	released := suspended(time.Hour)
	released.Spec.Suspend = ptr.To(false)
	queued := func(deadline time.Duration) *batchv1.Job {
		job := suspended(time.Hour)
		job.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
		if deadline > 0 {
			job.Spec.ActiveDeadlineSeconds = ptr.To(int64(deadline.Seconds()))
		}
		return job
	}
	for name, c := range map[string]struct {
		o    observe.Snapshot
		want bool
	}{
		"Kueue holds it":                     {observe.Snapshot{Job: queued(2 * time.Hour)}, false},
		"Kueue holds it, its client is dead": {observe.Snapshot{Job: queued(time.Hour - time.Second)}, true},
		"Kueue holds it, no deadline":        {observe.Snapshot{Job: queued(0)}, false},
		"its client is dead":                 {observe.Snapshot{Job: suspended(orders.Lease + time.Second)}, true},
		"its client may live":                {observe.Snapshot{Job: suspended(orders.Lease - time.Second)}, false},
		"released":                           {observe.Snapshot{Job: released}, false},
		"has a cluster":                      {observe.Snapshot{Job: suspended(time.Hour), Cluster: &rayv1.RayCluster{}}, true},
	} {
		c.o.Now = now
		if got := neverReleased(&c.o); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRecordWaits: a record is closed only when its cluster has ended and no node has its pod, whose container would find that out itself.
func TestRecordWaits(t *testing.T) {
	record := &batchv1.Job{ObjectMeta: old(time.Hour)}
	ended := record.DeepCopy()
	ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	pod := func(node string, phase corev1.PodPhase) []*corev1.Pod {
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{objects.LabelRole: objects.RoleRecord}}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}}
	}
	for name, c := range map[string]struct {
		o    observe.Snapshot
		want bool
	}{
		"no pod":            {observe.Snapshot{Record: record}, true},
		"no room":           {observe.Snapshot{Record: record, Pods: pod("", corev1.PodPending)}, true},
		"it starts":         {observe.Snapshot{Record: record, Pods: pod("node", corev1.PodPending)}, false},
		"it runs":           {observe.Snapshot{Record: record, Pods: pod("node", corev1.PodRunning)}, false},
		"ended":             {observe.Snapshot{Record: ended}, false},
		"new":               {observe.Snapshot{Record: &batchv1.Job{ObjectMeta: old(0)}}, false},
		"its cluster lives": {observe.Snapshot{Record: record, Job: &batchv1.Job{}}, false},
		"no record":         {observe.Snapshot{}, false},
	} {
		c.o.Now = now
		if got := recordWaits(&c.o); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestLifetimeMaxWithoutKeeper: without a keeper on Kubernetes lifetime.max counts for runs only, from the moment that the cluster was ready.
func TestLifetimeMaxWithoutKeeper(t *testing.T) {
	cluster := func(ready time.Duration) *observe.Snapshot {
		rc := &rayv1.RayCluster{ObjectMeta: old(24 * time.Hour)}
		rc.Status.StateTransitionTimes = map[rayv1.ClusterState]*metav1.Time{rayv1.Ready: {Time: now.Add(-ready)}}
		return &observe.Snapshot{Now: now, Cluster: rc}
	}
	never := cluster(0)
	never.Cluster.Status.StateTransitionTimes = nil
	file := func(entrypoint string, limit time.Duration) *spec.ClusterSpec {
		grace := units.Duration(time.Minute)
		s := &spec.ClusterSpec{}
		s.Job.Entrypoint, s.Job.Grace, s.Lifetime.Max = entrypoint, &grace, units.Limit(limit)
		return s
	}
	for name, c := range map[string]struct {
		o    *observe.Snapshot
		s    *spec.ClusterSpec
		want bool
	}{
		"passed":          {cluster(time.Hour + time.Minute + lateSlack + time.Second), file("true", time.Hour), true},
		"its driver ends": {cluster(time.Hour + time.Minute + lateSlack - time.Second), file("true", time.Hour), false},
		"no job":          {cluster(20 * time.Hour), file("", time.Hour), false},
		"no limit":        {cluster(20 * time.Hour), file("true", 0), false},
		"never ready":     {never, file("true", time.Hour), false},
	} {
		if got := outlived(c.o, c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if o := cluster(0); !keeperless(o) {
		t.Error("it has no keeper")
	}
	owned := cluster(0)
	owned.Cluster.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}}
	if keeperless(owned) {
		t.Error("a Job that goes takes it along")
	}
}
