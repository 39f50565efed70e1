package observe

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestKeeperWait has a row for each cause that keeps a keeper's pod from running, with Kubernetes' own strings.
func TestKeeperWait(t *testing.T) {
	keeperPod := func(o *Snapshot, change func(*corev1.Pod)) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "c-k", CreationTimestamp: metav1.NewTime(launched), Labels: map[string]string{objects.LabelName: "c", objects.LabelRole: objects.RoleKeeper}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: objects.KeeperContainer, Image: "me/nopython:1"}}},
		}
		change(p)
		o.Pods = append(o.Pods, p)
	}
	ended := func(p *corev1.Pod, code int32, reason, message string) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: objects.KeeperContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}}}
	}
	noPull := func(o *Snapshot) {
		keeperPod(o, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("ErrImagePull", "nosuch:1: not found")}
		})
	}
	refused := func(o *Snapshot) {
		o.events = []*corev1.Event{{
			InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "c", UID: o.Job.UID}, Reason: "FailedCreate",
			Message: `Error creating: pods "c-k" is forbidden: exceeded quota: rq, requested: pods=1, used: pods=4, limited: pods=4`,
		}}
	}
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		after  time.Duration // since the first look
		code   int           // 0: it is waited for
		want   string
	}{
		{"soon", func(*Snapshot) {}, time.Second, 0, ""},
		{"not seen yet", func(*Snapshot) {}, time.Minute, 0, "the keeper's pod is starting"},
		{"quota", refused, time.Hour, 0, "exceeded quota: rq"},
		{"quota that never suffices", func(o *Snapshot) {
			refused(o)
			o.events[0].Message = strings.ReplaceAll(o.events[0].Message, "pods=4", "pods=0")
		}, time.Hour, runstate.CodeStartFailed, "exceeded quota: rq"},
		{"quota of an earlier Job", func(o *Snapshot) { refused(o); o.events[0].InvolvedObject.UID = "other" }, time.Minute, 0, "is starting"},
		{"quota, until lifetime.queue", refused, 2 * time.Hour, runstate.CodeQueueTimeout, "exceeded quota: rq"},
		{"no room", func(o *Snapshot) {
			keeperPod(o, func(p *corev1.Pod) { unscheduled(p, "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu") })
		}, time.Hour, 0, "1 Insufficient cpu"},
		{"no room, until lifetime.queue", func(o *Snapshot) {
			keeperPod(o, func(p *corev1.Pod) { unscheduled(p, "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu") })
		}, 2 * time.Hour, runstate.CodeQueueTimeout, "1 Insufficient cpu: launch it again later, or raise lifetime.queue"},
		{"image, at first", noPull, 50 * time.Second, 0, "nosuch:1: not found"},
		{"image, after a minute", noPull, time.Minute, runstate.CodeStartFailed, "nosuch:1: not found"},
		{"image that cannot be", func(o *Snapshot) {
			keeperPod(o, func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("InvalidImageName", "invalid reference format")}
			})
		}, 0, runstate.CodeStartFailed, "invalid reference format"},
		{"image without python3", func(o *Snapshot) {
			keeperPod(o, func(p *corev1.Pod) {
				ended(p, 128, "StartError", `failed to create containerd task: exec: "python3": executable file not found in $PATH`)
			})
		}, 0, runstate.CodeStartFailed, "python3 cannot be started in image me/nopython:1"},
		{"failed once", func(o *Snapshot) { keeperPod(o, func(p *corev1.Pod) { ended(p, 1, "Error", "") }) }, time.Hour, 0, "exit code 1"},
		{"failed often", func(o *Snapshot) {
			for range Crashes {
				keeperPod(o, func(p *corev1.Pod) { ended(p, 1, "Error", "SyntaxError") })
			}
		}, 0, runstate.CodeStartFailed, "SyntaxError"},
		{"evicted often", func(o *Snapshot) {
			for range Crashes {
				keeperPod(o, func(p *corev1.Pod) {
					ended(p, 137, "Error", "")
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
				})
			}
		}, time.Hour, 0, "has failed"},
		{"ended by somebody", func(o *Snapshot) { o.Job = nil }, 0, runstate.CodeInterrupted, "was ended while it was launched"},
		{"replaced by somebody", func(o *Snapshot) { o.Job.UID = "other" }, 0, runstate.CodeInterrupted, "was ended while it was launched"},
	} {
		s, err := spec.Decode(strings.NewReader("name: c\nlauncher: kuberay\nimage: rayproject/ray:2.60.0\nlifetime: {queue: 2h}\n"), "rayctl.yaml")
		if err != nil {
			t.Fatal(err)
		}
		p, err := objects.NewPlan(spec.For(s, kuberayspec.Name), "rl", "ann@laptop", admit.All())
		if err != nil {
			t.Fatal(err)
		}
		p.OwnerUID = "mine"
		w, why := &KeeperWait{Plan: p, Begun: launched}, ""
		for _, at := range []time.Duration{0, c.after} { // a reason must last to count
			o := scene(func(o *Snapshot) { o.Now, o.Job.UID = launched.Add(at), p.OwnerUID; c.change(o) })
			if why, err = w.WaitsFor(o); err != nil {
				why = err.Error()
			}
		}
		if err == nil && c.code != 0 || err != nil && launcher.ExitCode(err) != c.code || !strings.Contains(why, c.want) || c.want == "" && why != "" {
			t.Errorf("%s: %q, %v; want %d, %q", c.name, why, err, c.code, c.want)
		}
	}
}

// TestKeeperSucceeded: a keeper's pod that an earlier cluster of the name has left ends nothing.
func TestKeeperSucceeded(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "new"}}
	for uid, want := range map[types.UID]bool{"new": true, "old": false} {
		owner := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: uid}}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "c-k", Labels: map[string]string{objects.LabelRole: objects.RoleKeeper}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("Job"))}},
			Status:     corev1.PodStatus{Phase: corev1.PodSucceeded},
		}
		if got := KeeperSucceeded(&Snapshot{Job: job, Pods: []*corev1.Pod{pod}}); got != want {
			t.Errorf("a pod of the %s Job: %v", uid, got)
		}
		pod.Status.Phase = corev1.PodFailed
		if KeeperSucceeded(&Snapshot{Job: job, Pods: []*corev1.Pod{pod}}) {
			t.Errorf("a failed pod of the %s Job", uid)
		}
	}
}

// TestHasResult: a record that has ended has the result of the keeper that it asked, which another one may have followed.
func TestHasResult(t *testing.T) {
	record := &batchv1.Job{Status: batchv1.JobStatus{Succeeded: 1}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "new"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{objects.LabelRole: objects.RoleKeeper}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}},
		Status:     corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
	ended := &runstate.State{Exit: &runstate.Exit{}}
	for name, c := range map[string]struct {
		o          *Snapshot
		st         *runstate.State
		has, hasOf bool
	}{
		"nothing":                      {&Snapshot{Job: job}, ended, false, false},
		"record":                       {&Snapshot{Job: job, Record: record}, &runstate.State{}, true, false},
		"record, keeper unknown":       {&Snapshot{Job: job, Record: record}, nil, true, false},
		"record, keeper has an exit":   {&Snapshot{Job: job, Record: record}, ended, true, true},
		"keeper's pod, keeper unknown": {&Snapshot{Job: job, Pods: []*corev1.Pod{pod}}, nil, true, true},
	} {
		if has, of := HasResult(c.o), HasResultOf(c.o, c.st); has != c.has || of != c.hasOf {
			t.Errorf("%s: %v, %v", name, has, of)
		}
	}
}

// TestOwnContainer: a pod that another container keeps running, or fails later, has done what its own container has.
func TestOwnContainer(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "new"}}
	ends := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, c := range map[string]struct {
		phase                  corev1.PodPhase
		proxy, keeper          corev1.ContainerState
		running, success, held bool
	}{
		"both run":         {corev1.PodRunning, runs, runs, true, false, false},
		"proxy has ended":  {corev1.PodRunning, ends(0), runs, true, false, false},
		"keeper has ended": {corev1.PodRunning, runs, ends(0), false, true, true},
		"keeper failed":    {corev1.PodRunning, runs, ends(1), false, false, false},
		"proxy failed":     {corev1.PodFailed, ends(1), ends(0), false, true, true},
		"both have ended":  {corev1.PodSucceeded, ends(0), ends(0), false, true, false},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "c-k", Labels: map[string]string{objects.LabelRole: objects.RoleKeeper}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}},
			Status:     corev1.PodStatus{Phase: c.phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", State: c.proxy}, {Name: objects.KeeperContainer, State: c.keeper}}},
		}
		o := &Snapshot{Job: job, Pods: []*corev1.Pod{pod}}
		if KeeperRuns(o) != c.running || KeeperSucceeded(o) != c.success || o.HeldByContainer() != c.held {
			t.Errorf("%s: runs %v, succeeded %v, held %v (%s)", name, KeeperRuns(o), KeeperSucceeded(o), o.HeldByContainer(), o.held())
		}
	}
}
