package kuberay

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// prolongEvery is how often a client that waits for its keeper's pod moves the deadline of the Jobs.
const prolongEvery = startDeadline / 5

// awaitKeeper waits until the keeper's container runs, and says why it does not yet. The keeper's pod is in no gang, so it need not queue; but
// there may be no room for it, or no quota. What keeps it from starting for good (its image, its Secret) is an error.
func (m *making) awaitKeeper(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The way to the keeper needs this permission; watches may do without.
	if _, err := m.c.core.CoreV1().Pods(m.c.namespace).List(ctx, metav1.ListOptions{LabelSelector: keeperSelector(m.p.spec.Name), Limit: 1}); err != nil {
		return explain(err, "list", "pods", m.c)
	}
	live, err := m.c.newObjectCache(ctx, m.p.spec.Name)
	if err != nil {
		return err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	wait := keeperWait{p: m.p, begun: m.begun}
	for {
		o := live.snapshot()
		why, err := wait.look(o)
		if err != nil || keeperRuns(o) && (o.admitted() || o.now.Sub(m.begun) > silence) {
			return err
		}
		say(m.pay, cmp.Or(live.trouble(), why))
		m.prolong(ctx)
		select {
		case <-ctx.Done():
			return interrupted(ctx.Err(), m.p.spec.Name)
		case <-live.changed:
		case <-tick.C:
		}
	}
}

// keeperWait judges what is seen of a keeper's pod that does not run yet. It is pure.
type keeperWait struct {
	p        *plan
	begun    time.Time
	badSince time.Time // a reason that does not pass is seen since then
}

// look says what is waited for, or that waiting is of no use.
func (w *keeperWait) look(o *snapshot) (why string, err error) {
	name := w.p.spec.Name
	if o.job == nil || o.job.UID != w.p.ownerUID || o.job.DeletionTimestamp != nil || jobEnded(o.job) {
		return "", launcher.Fail(runstate.CodeInterrupted, nil, "launch it again",
			"%s was ended while it was launched: by somebody, or by Kubernetes because this client was not heard of for %s", name, launcher.Human(startDeadline.Seconds()))
	}
	r := o.keeperReason()
	if w.hopeless(r.Code, o.now) {
		return "", launcher.Fail(runstate.CodeStartFailed, nil, r.Hint, "the keeper of %s does not start: %s", name, r.Message)
	}
	if err := o.refused(name); err != nil {
		return "", err
	}
	waited := o.now.Sub(w.begun)
	if queue, bound := w.p.spec.Lifetime.Queue.Bound(); bound && waited >= queue {
		return "", queueTimeout(name, "has no keeper", queue, r.Message, r.Hint)
	}
	switch {
	case r.Code != "":
		return "the keeper does not start yet: " + r.Message, nil
	case waited > silence:
		return "the keeper's pod is starting", nil
	}
	return "", nil
}

// hopeless says whether a reason has been seen for as long as it may pass by itself.
func (w *keeperWait) hopeless(code string, now time.Time) bool {
	patience, bad := hopeless[code]
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

// keeperReason is why the keeper's pod does not run, from the last one that the Job has made.
func (o *snapshot) keeperReason() runstate.Reason {
	pods := o.role(roleKeeper)
	if len(pods) == 0 {
		return o.refusedKeeper()
	}
	last := pods[len(pods)-1]
	if last.Status.Phase == corev1.PodFailed {
		return failedKeeper(pods, last)
	}
	if r := stuckPod(last); r.Code != "" {
		return r
	}
	if message := notScheduled(last); message != "" {
		return runstate.Reason{Code: corev1.PodReasonUnschedulable, Message: "no node has room for its pod: " + message}
	}
	return runstate.Reason{}
}

// refusedKeeper: quota or admission; only an event of the Job says so. An earlier Job of the name may have left events, too.
func (o *snapshot) refusedKeeper() runstate.Reason {
	var last *corev1.Event
	for _, e := range o.events {
		if e.InvolvedObject.Kind == "Job" && o.job != nil && e.InvolvedObject.UID == o.job.UID && e.Reason == "FailedCreate" &&
			(last == nil || eventTime(last).Before(eventTime(e))) {
			last = e
		}
	}
	if last == nil {
		return runstate.Reason{}
	}
	return o.refusedHelper().explain(last.Message, last.Reason)
}

// admitted says whether the operator has made the pods of the RayCluster, or has said why it did not: its first look at a RayCluster does either.
// A launch waits for that before its commit, though not for an operator that does not run. So a refusal that cannot pass ends the launch, and no
// client has to watch for it later.
func (o *snapshot) admitted() bool {
	c := o.cluster
	return c != nil && (c.Status.ObservedGeneration > 0 || c.Status.State != "" || len(c.Status.Conditions) > 0) //nolint:staticcheck // see phase
}

// refused is the error of a launch whose RayCluster or pods are refused for good.
func (o *snapshot) refused(name string) error {
	for _, r := range []runstate.Reason{o.refusedSpec(), o.refusedPods()} {
		if patience, bad := hopeless[r.Code]; bad && patience == 0 {
			return launcher.Fail(runstate.CodeStartFailed, nil, r.Hint, "%s cannot start: %s", name, r.Message)
		}
	}
	return nil
}

// failedKeeper: a container that could not begin, or has ended before anybody saw it run. The Job makes other pods, with growing pauses.
func failedKeeper(pods []*corev1.Pod, last *corev1.Pod) runstate.Reason {
	for _, s := range last.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun") {
			return runstate.Reason{
				Code: t.Reason, Message: fmt.Sprintf("python3 cannot be started in image %s: %s", last.Spec.Containers[0].Image, lastLines(t.Message)),
				Hint: "set kuberay.keeperImage to an image with python3",
			}
		}
	}
	r := runstate.Reason{Code: "KeeperFailed", Message: fmt.Sprintf("pod %s has failed: %s", last.Name, cmp.Or(endOfPod(last), last.Status.Reason)), Hint: fmt.Sprintf("`kubectl logs -n %s %s -c %s` may say more", last.Namespace, last.Name, keeperContainer)}
	if failures(pods) >= crashes {
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

// disruption says why Kubernetes takes a pod away; nil: it does not.
func disruption(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// prolong moves the deadline of both Jobs, now and then.
func (m *making) prolong(ctx context.Context) {
	if time.Since(m.prolonged) < prolongEvery {
		return
	}
	m.prolonged = time.Now()
	seconds := int64((time.Since(m.begun) + startDeadline).Seconds()) // Kubernetes counts from later on
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	for _, name := range []string{m.p.spec.Name, recordName(m.p.spec.Name)} {
		if err := m.c.patchJob(ctx, name, map[string]any{"spec": map[string]any{"activeDeadlineSeconds": seconds}}); err != nil {
			m.l.log.Debug("a deadline cannot be moved now", "job", name, "error", err)
		}
	}
}

// setLimits gives both Jobs the limits that they are to have, in place of those of provisional.
func (m *making) setLimits(ctx context.Context) error {
	both, bothCtx := errgroup.WithContext(ctx)
	for _, job := range []*batchv1.Job{m.p.keeperJob(), m.p.recordJob()} {
		limits := map[string]any{"activeDeadlineSeconds": job.Spec.ActiveDeadlineSeconds, "ttlSecondsAfterFinished": job.Spec.TTLSecondsAfterFinished}
		both.Go(func() error { return m.c.patchJob(bothCtx, job.Name, map[string]any{"spec": limits}) })
	}
	return explain(both.Wait(), "patch", "jobs.batch", m.c)
}

// say tells the user what a launch waits for.
func say(pay launcher.Payload, why string) {
	if why != "" && pay.Progress != nil {
		pay.Progress(launcher.Progress{Text: why})
	}
}

// queueTimeout gives up a launch that lifetime.queue bounds. Before there is a keeper to count it, the client does.
func queueTimeout(name, what string, queue time.Duration, why, hint string) error {
	if why != "" {
		why = ": " + why
	}
	return launcher.Fail(runstate.CodeQueueTimeout, nil, hint, "%s %s within lifetime.queue (%s)%s", name, what, launcher.Human(queue.Seconds()), why)
}
