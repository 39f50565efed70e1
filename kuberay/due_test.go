package kuberay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher/runstate"
)

var begun = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// after is a cluster of a head whose container waits for this reason, some time after the first look.
func after(passed time.Duration, reason string) *observe.Snapshot {
	at := metav1.NewTime(begun)
	head := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "c-head", CreationTimestamp: at, Labels: map[string]string{
			objects.RayClusterLabel: "c", objects.RayNodeTypeLabel: objects.HeadNodeType, objects.RayGroupLabel: objects.HeadGroup, objects.LabelName: "c",
		}},
		Spec: corev1.PodSpec{NodeName: "node", SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "ray-head"}}},
	}
	head.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "ray-head", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "the kubelet's words"}}}}
	return &observe.Snapshot{
		Now:     begun.Add(passed),
		Job:     &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: at}},
		Cluster: &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: at}},
		Pods:    []*corev1.Pod{head},
	}
}

// keeperSucceeded adds the keeper's pod, which has ended with code 0.
func keeperSucceeded(o *observe.Snapshot) {
	o.Job.UID = "job"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "c-1", Labels: map[string]string{objects.LabelName: "c", objects.LabelRole: objects.RoleKeeper}}}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.Job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: objects.KeeperContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	o.Pods = append(o.Pods, pod)
}

// TestWhenAnEndIsDue: an end is due at once for a reason that never passes, and for others when they have been seen for a minute without a pause; it is none of who asks
// twice, of a cluster that is ready, ends, or is somebody else's.
func TestWhenAnEndIsDue(t *testing.T) {
	starting := &runstate.State{Phase: runstate.Provisioning, Committed: true}
	type at struct {
		passed time.Duration
		reason string
	}
	for name, c := range map[string]struct {
		looks  []at
		state  *runstate.State
		change func(o *observe.Snapshot)
		want   string // in the message of the last look's end; "": none is due
		cause  string
	}{
		"never passes":         {looks: []at{{0, "InvalidImageName"}}, state: starting, want: "the kubelet's words", cause: runstate.CauseStartFailed},
		"without the keeper":   {looks: []at{{0, "InvalidImageName"}}, want: "the kubelet's words", cause: runstate.CauseStartFailed},
		"may pass":             {looks: []at{{0, "ErrImagePull"}, {59 * time.Second, "ErrImagePull"}}, state: starting},
		"has not passed":       {looks: []at{{0, "ErrImagePull"}, {time.Minute, "ImagePullBackOff"}}, state: starting, want: "the kubelet's words", cause: runstate.CauseStartFailed},
		"passed in between":    {looks: []at{{0, "ErrImagePull"}, {30 * time.Second, "ContainerCreating"}, {time.Minute, "ErrImagePull"}}, state: starting},
		"is ready":             {looks: []at{{0, "InvalidImageName"}}, state: &runstate.State{Phase: runstate.Ready}},
		"ends":                 {looks: []at{{0, "InvalidImageName"}}, state: &runstate.State{Phase: runstate.Draining}},
		"has ended":            {looks: []at{{0, "InvalidImageName"}}, state: &runstate.State{Phase: runstate.Provisioning, Exit: &runstate.Exit{}}},
		"without a keeper":     {looks: []at{{0, "InvalidImageName"}}, change: func(o *observe.Snapshot) { o.Job = nil }},
		"its Job is deleted":   {looks: []at{{0, "InvalidImageName"}}, change: func(o *observe.Snapshot) { o.Job.DeletionTimestamp = &metav1.Time{Time: begun} }},
		"RayCluster deleted":   {looks: []at{{0, ""}, {time.Second, "deleted"}}, state: starting, want: "its RayCluster was deleted: ns/c", cause: runstate.CauseLost},
		"deleted by its end":   {looks: []at{{0, ""}, {time.Second, "deleted"}}, state: &runstate.State{Phase: runstate.Draining, Committed: true}},
		"its keeper has ended": {looks: []at{{0, ""}, {time.Second, "deleted"}}, state: starting, change: keeperSucceeded},
		"record is complete": {looks: []at{{0, ""}, {time.Second, "deleted"}}, state: starting, change: func(o *observe.Snapshot) {
			o.Record = &batchv1.Job{Status: batchv1.JobStatus{Succeeded: 1}}
		}},
		"never a RayCluster":  {looks: []at{{observe.Silence + 1, "deleted"}, {2*observe.Silence + 1, "deleted"}}, state: &runstate.State{Phase: runstate.Queued}},
		"not seen, committed": {looks: []at{{observe.Silence + 1, "deleted"}, {2*observe.Silence + 1, "deleted"}}, state: starting, want: "its RayCluster was deleted: ns/c", cause: runstate.CauseLost},
	} {
		t.Run(name, func(t *testing.T) {
			judge := dueJudge{Namespace: "ns", ID: "c"}
			var message, cause string
			for _, look := range c.looks {
				o := after(look.passed, look.reason)
				if look.reason == "deleted" {
					o.Cluster, o.Pods = nil, nil
				}
				if c.change != nil {
					c.change(o)
				}
				message, cause = "", ""
				if end := judge.End(o, c.state, false); end != nil {
					message, cause = end.Message, end.Cause
				}
			}
			if (c.want == "") != (message == "") || !strings.Contains(message, c.want) || cause != c.cause {
				t.Errorf("due: %q, %q; want %q, %q", cause, message, c.cause, c.want)
			}
		})
	}
}

// TestContainerThatCannotStart: what keeps a container from starting and does not pass. A keeper that may look at its pods judges the same cases alike
// (keeper/tests/kubernetes/test_unstartable.py).
func TestContainerThatCannotStart(t *testing.T) {
	var cases []struct {
		Name     string
		Pod      *corev1.Pod
		Patience *int // seconds until an end is due; nil: none is
		Message  string
	}
	text, err := os.ReadFile(filepath.Join("testdata", "containers.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) < 15 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			judge := dueJudge{Namespace: "ns", ID: "c"}
			dueAfter := func(passed time.Duration) string {
				o := after(passed, "")
				c.Pod.Labels, o.Pods = o.Pods[0].Labels, []*corev1.Pod{c.Pod}
				if end := judge.End(o, &runstate.State{Phase: runstate.Starting}, false); end != nil {
					return end.Message
				}
				return ""
			}
			first, later := dueAfter(0), dueAfter(time.Minute)
			if want := c.Message; later != want || (first == want) != (c.Patience == nil || *c.Patience == 0) || c.Patience != nil && *c.Patience != 0 && dueAfter(59*time.Second) != "" {
				t.Errorf("due at once %q, after a minute %q, want %q", first, later, want)
			}
		})
	}
}
