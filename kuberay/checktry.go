package kuberay

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

const (
	// operatorPatience is how long an operator may need to look at a RayCluster. Usually it does at once.
	operatorPatience = 20 * time.Second
	// podPatience is for a small pod whose image may have to be pulled.
	podPatience = 2 * time.Minute
	// lookup is what the pod does: every Kubernetes has this name.
	lookup = "import socket; print(socket.getaddrinfo('kubernetes.default.svc', 443)[0][4][0])"
)

// tryOut sees whether the operator acts, whether it knows tokens, and whether a pod starts and finds names, by creating a suspended
// RayCluster that a Job owns. The Job ends by itself, and with it all of it, whatever becomes of this process.
func (l *Launcher) tryOut(ctx context.Context, c *client, s *spec.ClusterSpec) []launcher.Check {
	s.Name = "rayctl-doctor-" + strings.ToLower(rand.Text()[:5])
	if s.KubeRay.Keeper == keeperNone {
		return l.tryAlone(ctx, c, s.Name)
	}
	p, err := newPlan(spec.Copy(s), c.namespace, l.owner, true)
	withPod := err == nil // what is wrong with the file was said before
	job := c.tryJob(s, p, withPod)
	created, err := c.core.BatchV1().Jobs(c.namespace).Create(ctx, job, metav1.CreateOptions{FieldManager: managedBy})
	if err != nil {
		return []launcher.Check{failed("KubeRay", explain(err, "create", "jobs.batch", c))}
	}
	defer func() {
		if err := c.deleteJob(context.WithoutCancel(ctx), created.Name, created.UID); err != nil {
			l.log.Warn("what doctor created ends by itself", "job", created.Name, "error", err)
		}
	}()
	operator, _ := c.tryOperator(ctx, metav1.ObjectMeta{Name: created.Name, Labels: created.Labels, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "batch/v1", Kind: "Job", Name: created.Name, UID: created.UID, Controller: ptr.To(false),
		BlockOwnerDeletion: ptr.To(true), // as in a launch: this is where jobs/finalizers may be needed
	}}})
	checks := []launcher.Check{operator}
	if withPod {
		checks = append(checks, c.tryPod(ctx, created.Name))
	} else {
		checks = append(checks, launcher.Check{Name: "pods and DNS", OK: true, Detail: "not tried, as the file has no image"})
	}
	return checks
}

// tryAlone sees whether the operator acts, for who may not create Jobs. If this process is killed meanwhile a suspended RayCluster stays.
func (l *Launcher) tryAlone(ctx context.Context, c *client, name string) []launcher.Check {
	operator, uid := c.tryOperator(ctx, metav1.ObjectMeta{Name: name, Labels: map[string]string{labelDoctor: name}})
	if uid != "" {
		if err := c.deleteCluster(context.WithoutCancel(ctx), launcher.ID(name), uid); err != nil {
			l.log.Warn("what doctor created could not be removed", "raycluster", name, "error", err)
		}
	}
	return []launcher.Check{operator, {Name: "pods and DNS", OK: true, Detail: "not tried, as that takes a Job"}}
}

// labelDoctor marks what doctor creates.
const labelDoctor = "rayctl.io/doctor"

// tryJob runs the lookup, or nothing where there is no image.
func (c *client) tryJob(s *spec.ClusterSpec, p *plan, withPod bool) *batchv1.Job {
	labels := map[string]string{labelDoctor: s.Name}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: c.namespace, Labels: labels},
		Spec:       batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64((podPatience + operatorPatience).Seconds())), TTLSecondsAfterFinished: ptr.To(int32(60)), BackoffLimit: ptr.To(int32(0))},
	}
	if withPod {
		job.Spec.Template = p.helperPod("doctor", corev1.Container{Name: "doctor", Command: []string{"python3", "-E", "-s", "-c", lookup}})
	} else {
		job.Spec.Parallelism = ptr.To(int32(0))
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "none", Image: "none"}}}
	}
	job.Spec.Template.Labels = labels
	return job
}

// tryOperator creates a suspended RayCluster, and waits until the operator notes that it is. "" for what could not be created.
func (c *client) tryOperator(ctx context.Context, m metav1.ObjectMeta) (launcher.Check, types.UID) {
	check := launcher.Check{Name: "KubeRay", Hint: "see whether the operator runs and watches this namespace"}
	rc := &rayv1.RayCluster{
		TypeMeta: metav1.TypeMeta{APIVersion: rayv1.GroupVersion.String(), Kind: "RayCluster"}, ObjectMeta: m,
		Spec: rayv1.RayClusterSpec{Suspend: ptr.To(true), RayVersion: "2.52.0", AuthOptions: &rayv1.AuthOptions{Mode: rayv1.AuthModeToken, SecretName: ptr.To("none")}},
	}
	rc.Spec.HeadGroupSpec.RayStartParams = map[string]string{}
	rc.Spec.HeadGroupSpec.Template.Spec.Containers = []corev1.Container{{Name: "ray-head", Image: "none"}}
	created, err := c.createRayCluster(ctx, rc)
	if err != nil {
		return failed(check.Name, err), ""
	}
	token := "knows authOptions"
	if rc.Spec.AuthOptions == nil {
		token = "does not know authOptions (KubeRay before 1.5), so tokens come by the pods' environment"
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, operatorPatience)
	defer cancel()
	_, err = watchtools.UntilWithSync(ctx, c.one(ctx, rayClusters, rc.Name), &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		seen, ok := as[rayv1.RayCluster](event.Object)
		return ok && (seen.Status.ObservedGeneration > 0 || seen.Status.State != ""), nil //nolint:staticcheck // KubeRay 1.4 has nothing better
	})
	if err != nil {
		check.Detail = fmt.Sprintf("the operator did nothing with a RayCluster for %s", operatorPatience)
		return check, created.GetUID()
	}
	check.OK, check.Detail = true, fmt.Sprintf("the operator acts (after %.1f s); its ray.io/v1 %s", time.Since(began).Seconds(), token)
	return check, created.GetUID()
}

// tryPod waits for the lookup's end.
func (c *client) tryPod(ctx context.Context, name string) launcher.Check {
	check := launcher.Check{Name: "pods and DNS", Hint: "see why with `kubectl describe pod -l " + labelDoctor + "=" + name + "`"}
	ctx, cancel := context.WithTimeout(ctx, podPatience)
	defer cancel()
	var last *corev1.Pod
	err := c.awaitPods(ctx, labelDoctor+"="+name, func(event watch.Event) (bool, error) {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			last = pod
		}
		return last != nil && (over(last) || stuck(last) != ""), nil
	})
	switch {
	case err == nil && last.Status.Phase == corev1.PodSucceeded:
		check.OK, check.Detail = true, "a pod starts and finds kubernetes.default.svc"
	case err == nil && last.Status.Phase == corev1.PodFailed:
		check.Detail = "a pod cannot look up kubernetes.default.svc: " + endOfPod(last)
	case last == nil:
		check.Detail = fmt.Sprintf("no pod was made for a Job within %s", podPatience)
	default:
		check.Detail = "a small pod does not start: " + first(stuck(last), notScheduled(last), string(last.Status.Phase))
	}
	return check
}

// endOfPod is how a container ended, and what it said last.
func endOfPod(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			lines := strings.Split(strings.TrimSpace(t.Message), "\n")
			return fmt.Sprintf("exit code %d %s", t.ExitCode, lines[len(lines)-1])
		}
	}
	return first(pod.Status.Message, pod.Status.Reason)
}

func notScheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}
