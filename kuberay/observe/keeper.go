package observe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// KeeperWait judges what is seen of a keeper's pod that does not run yet. It is pure.
type KeeperWait struct {
	Plan     *objects.Plan
	Begun    time.Time
	badSince time.Time // a reason that does not pass is seen since then
}

// WaitsFor returns what the keeper waits for, or an error if waiting is useless.
func (w *KeeperWait) WaitsFor(o *Snapshot) (why string, err error) {
	name := w.Plan.Spec.Name
	if o.Job == nil || o.Job.UID != w.Plan.OwnerUID || o.Job.DeletionTimestamp != nil || JobEnded(o.Job) {
		return "", launcher.Fail(runstate.CodeInterrupted, nil, "launch it again",
			"%s was ended while it was launched: by somebody, or by Kubernetes because this client did not renew the launch for %s", name, launcher.Human(objects.StartDeadline.Seconds()))
	}
	r := o.keeperReason()
	if w.hopeless(r.Code, o.Now) {
		return "", launcher.Fail(runstate.CodeStartFailed, nil, r.Hint, "the keeper of %s does not start: %s", name, r.Message)
	}
	if err := o.Refused(name); err != nil {
		return "", err
	}
	waited := o.Now.Sub(w.Begun)
	if queue, bound := w.Plan.Spec.Lifetime.Queue.Bound(); bound && waited >= queue {
		return "", api.QueueTimeout(name, "has no keeper", queue, r.Message, r.Hint)
	}
	switch {
	case r.Code != "":
		return "the keeper does not start yet: " + r.Message, nil
	case waited > Silence:
		return "the keeper's pod is starting", nil
	}
	return "", nil
}

// hopeless reports whether a reason has been seen for as long as it may pass by itself.
func (w *KeeperWait) hopeless(code string, now time.Time) bool {
	patience, bad := Hopeless[code]
	if code == "StartError" || code == "ContainerCannotRun" { // the next pod has the same image
		bad = true
	}
	switch {
	case !bad:
		w.badSince = time.Time{}
	case w.badSince.IsZero():
		w.badSince = now
	}
	return bad && now.Sub(w.badSince) >= patience
}

// InQueue reports whether a Job is suspended until its queue admits it. One without a queue's name is suspended by its launch, for a moment.
func InQueue(job *batchv1.Job) bool {
	queue, _ := admit.QueueOf(job)
	return ptr.Deref(job.Spec.Suspend, false) && queue != ""
}

// NeverReleased reports whether a Job is as a launch creates it, for longer than a client that lives leaves it so. A queue may hold one for as long as it likes: then a
// client that lives moves the Job's deadline, towards which Kubernetes does not count while the Job is suspended.
func NeverReleased(job *batchv1.Job, now time.Time) bool {
	patience := orders.Lease
	if InQueue(job) {
		patience = time.Duration(ptr.Deref(job.Spec.ActiveDeadlineSeconds, int64(objects.Longest.Seconds()))) * time.Second
	}
	return ptr.Deref(job.Spec.Suspend, false) && now.Sub(job.CreationTimestamp.Time) > patience
}

// keeperReason is why the keeper's pod does not run, from the last one that the Job has made.
func (o *Snapshot) keeperReason() runstate.Reason {
	if r := o.heldKeeper(); r.Code != "" {
		return r
	}
	pods := o.Role(objects.RoleKeeper)
	if len(pods) == 0 {
		return o.refusedKeeper()
	}
	last := pods[len(pods)-1]
	if last.Status.Phase == corev1.PodFailed || last.Status.Phase == corev1.PodRunning && Finished(last, objects.KeeperContainer) && !Succeeded(last, objects.KeeperContainer) {
		return failedKeeper(pods, last)
	}
	if r := stuckPod(last); r.Code != "" {
		return r
	}
	if message := NotScheduled(last); message != "" {
		return runstate.Reason{Code: corev1.PodReasonUnschedulable, Message: "no node has room for its pod: " + message}
	}
	return runstate.Reason{}
}

// refusedKeeper returns why quota or admission refused the keeper's pod. Only an event of the Job has it.
func (o *Snapshot) refusedKeeper() runstate.Reason {
	if o.Job == nil {
		return runstate.Reason{}
	}
	last := o.event("Job", o.Job.UID, "FailedCreate")
	if last == nil {
		return runstate.Reason{}
	}
	return o.refusedHelper().Explain(last.Message, last.Reason)
}

// failedKeeper: a container that could not begin, or has ended before anybody saw it run. The Job makes other pods, with growing pauses.
func failedKeeper(pods []*corev1.Pod, last *corev1.Pod) runstate.Reason {
	if t := ended(last, objects.KeeperContainer); t != nil && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun") {
		return runstate.Reason{
			Code: t.Reason, Message: fmt.Sprintf("python3 cannot be started in image %s: %s", own(last, objects.KeeperContainer).Image, lastLines(t.Message)),
			Hint: "set kuberay.keeperImage to an image with python3",
		}
	}
	r := runstate.Reason{Code: "KeeperFailed", Message: fmt.Sprintf("pod %s has failed: %s", last.Name, cmp.Or(EndOfPod(last, objects.KeeperContainer), last.Status.Reason)), Hint: fmt.Sprintf("`kubectl logs -n %s %s -c %s` may show more", last.Namespace, last.Name, objects.KeeperContainer)}
	if failures(pods) >= Crashes {
		r.Code = "CrashLoopBackOff"
	}
	return r
}

// failures counts pods that failed by themselves, not by an eviction.
func failures(pods []*corev1.Pod) (n int) {
	for _, p := range pods {
		if p.Status.Phase == corev1.PodFailed && disruption(p) == nil {
			n++
		}
	}
	return n
}

// KeeperRuns reports whether a keeper runs in one of its pods.
func KeeperRuns(o *Snapshot) bool {
	return slices.ContainsFunc(o.Role(objects.RoleKeeper), RunsKeeper)
}

// RunsKeeper reports whether the keeper runs in its pod: another container may run longer.
func RunsKeeper(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && !Finished(p, objects.KeeperContainer)
}

// KeeperSucceeded reports whether a pod of the keeper's Job has ended as it does when the record has its result. What an earlier cluster of the name has
// left does not count.
func KeeperSucceeded(o *Snapshot) bool {
	return o.Job != nil && slices.ContainsFunc(o.Role(objects.RoleKeeper), func(p *corev1.Pod) bool {
		return Succeeded(p, objects.KeeperContainer) && isOf(p, o.Job)
	})
}

// HasResult reports whether the record has a result: a keeper's pod succeeds only then, and a record succeeds only then.
func HasResult(o *Snapshot) bool { return KeeperSucceeded(o) || o.RecordSucceeded() }

// HasResultOf reports whether it is the one of the keeper with this state: the record may succeed while a keeper that follows the one that it asked still waits
// for it.
func HasResultOf(o *Snapshot, st *runstate.State) bool {
	return HasResult(o) && (KeeperSucceeded(o) || st != nil && st.Exit != nil)
}
