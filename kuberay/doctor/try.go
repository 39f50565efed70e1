package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/manifest"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

const (
	// operatorPatience is how long an operator may need to look at a RayCluster. Usually it does at once.
	operatorPatience = 20 * time.Second
	// queuePatience is how long a queue may take to admit a Job that takes nothing of its quota.
	queuePatience = 20 * time.Second
	// podPatience is for a small pod whose image may have to be pulled.
	podPatience     = 2 * time.Minute
	doctorContainer = "doctor"
)

// tryOut sees whether the API server takes what a launch creates, whether operator and gang scheduler act, whether the pods are let in, and whether
// one starts and finds names. What it creates for that, pods that no scheduler may place among it, is owned by a Job, which ends by itself, and
// with it all of it, whatever becomes of this process.
func tryOut(ctx context.Context, c *api.Client, s *spec.ClusterSpec, from Caller) []launcher.Check {
	cluster := s.Name
	s.Name = "rayctl-doctor-" + strings.ToLower(rand.Text()[:5])
	p, err := objects.NewPlan(spec.Copy(s), c.Namespace, from.Owner, c.Served.Admitters)
	if err != nil { // what is wrong with the file was reported before
		p = nil
	}
	var checks []launcher.Check
	var queued error
	var held objects.Holds
	if p != nil {
		held = c.Holds(ctx, p)
		queued = p.Obey(held)
		checks = append(checks, checkObjects(ctx, c, p), checkToken(p), checkQuota(ctx, c, p), checkNetwork(ctx, c, p), checkNamed(ctx, c, p))
		if !checks[0].OK {
			return append(checks, launcher.Check{Name: "KubeRay", Detail: "not checked, because Kubernetes does not accept the objects", Hint: checks[0].Hint})
		}
	}
	if queued != nil {
		return append(checks, failed(held.By.Title, queued))
	}
	if p != nil && p.ClusterHeld {
		checks = append(checks, checkQueue(ctx, c, p, held.By))
	}
	if kuberayspec.Of(s).Keeper == objects.KeeperNone {
		return append(checks, tryAlone(ctx, c, s.Name, from.Log)...)
	}
	created, err := c.Core.BatchV1().Jobs(c.Namespace).Create(ctx, tryJob(c, s.Name, p), metav1.CreateOptions{FieldManager: objects.ManagedBy})
	if err != nil {
		return append(checks, failed("KubeRay", api.Explain(err, "create", "jobs.batch", c)))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operatorPatience)
		defer cancel()
		if err := c.DeleteJob(ctx, created.Name, created.UID); err != nil {
			from.Log.Warn("what doctor created ends by itself", "job", created.Name, "error", err)
		}
	}()
	if p != nil && p.JobsHeld {
		admitted := awaitQueue(ctx, c, created, held.By)
		if checks = append(checks, admitted); !admitted.OK {
			return checks
		}
	}
	return append(checks, tryAll(ctx, c, p, created, cluster)...)
}

// awaitQueue waits until the queue has admitted doctor's Job. Nothing else is created before: Kubernetes does not count towards the deadline of a Job that is held, which
// ends it, and all that it owns, after a doctor that was killed.
func awaitQueue(ctx context.Context, c *api.Client, job *batchv1.Job, by admit.Info) launcher.Check {
	ctx, cancel := context.WithTimeout(ctx, queuePatience)
	defer cancel()
	queue := job.Labels[by.QueueLabel]
	_, err := watchtools.UntilWithSync(ctx, c.WatchOne(ctx, api.Jobs, job.Name), &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		seen, ok := api.As[batchv1.Job](event.Object)
		return ok && !ptr.Deref(seen.Spec.Suspend, false), nil
	})
	if err != nil {
		asking, done := context.WithTimeout(context.WithoutCancel(ctx), queuePatience)
		defer done()
		why := cmp.Or(c.WhyHeld(asking, []metav1.Object{job})[job.UID].Why, "there is no such "+by.KindOfQueue+", it is stopped, or others wait in it before the Job")
		return launcher.Check{
			Name: by.Title, Detail: fmt.Sprintf("it has not admitted a small Job to queue %s within %s: %s", queue, queuePatience, why),
			Hint: "compare it with `kubectl get " + strings.ToLower(by.KindOfQueue) + "s -n " + c.Namespace + "`, and set kuberay.keeperQueue or the label " + by.QueueLabel + " in labels",
		}
	}
	return launcher.Check{Name: by.Title, OK: true, Detail: "it admits a small Job to queue " + queue}
}

// tryAll makes the tries at once: each may have to wait for its patience.
func tryAll(ctx context.Context, c *api.Client, p *objects.Plan, job *batchv1.Job, cluster string) []launcher.Check {
	m := metav1.ObjectMeta{Name: job.Name, Labels: map[string]string{labelDoctor: job.Name}, OwnerReferences: []metav1.OwnerReference{ownedBy(job)}}
	var head, helper *corev1.Pod
	tries := []func() []launcher.Check{
		func() []launcher.Check {
			checks, _ := tryOperator(ctx, c, p, m)
			head = headOf(ctx, c, m.Name)
			return checks
		},
		func() (checks []launcher.Check) {
			if p == nil {
				return []launcher.Check{{Name: podsAndDNS, OK: true, Detail: "not checked, because the file has no image"}}
			}
			checks, helper = tryPods(ctx, c, p, job, cluster)
			return checks
		},
	}
	if p != nil {
		if prober, ok := p.Admitter.(admit.Prober); ok {
			tries = append(tries, func() []launcher.Check { return []launcher.Check{tryGang(ctx, c, p, prober, m)} })
		}
	}
	found := make([][]launcher.Check, len(tries))
	var all sync.WaitGroup
	for i, try := range tries {
		all.Go(func() { found[i] = try() })
	}
	all.Wait()
	if helper != nil {
		found = append(found, checkHelper(helper, head, kuberayspec.Of(p.Spec).KeeperServiceAccountName))
	}
	return slices.Concat(found...)
}

// tryAlone sees whether the operator works, for who may not create Jobs. If this process is killed meanwhile a suspended RayCluster stays.
func tryAlone(ctx context.Context, c *api.Client, name string, log *slog.Logger) []launcher.Check {
	checks, uid := tryOperator(ctx, c, nil, metav1.ObjectMeta{Name: name, Labels: map[string]string{labelDoctor: name}})
	if uid != "" {
		if err := c.DeleteCluster(context.WithoutCancel(ctx), launcher.ID(name), uid); err != nil {
			log.Warn("what doctor created could not be removed", "raycluster", name, "error", err)
		}
	}
	return append(checks, launcher.Check{Name: podsAndDNS, OK: true, Detail: "not checked, because this needs a Job"})
}

// labelDoctor marks what doctor creates.
const labelDoctor = "rayctl.io/doctor"

// tryJob owns all that doctor creates: its pod listens, or it has none where there is no image.
func tryJob(c *api.Client, name string, p *objects.Plan) *batchv1.Job {
	if p != nil {
		return podJob(c, p, name, podOrders{Listen: int(podPatience.Seconds()), Ports: triedPorts})
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: map[string]string{labelDoctor: name}},
		Spec: batchv1.JobSpec{
			ActiveDeadlineSeconds: ptr.To(int64(operatorPatience.Seconds())), TTLSecondsAfterFinished: ptr.To(int32(60)), Parallelism: ptr.To(int32(0)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "none", Image: "none"}}}},
		},
	}
}

// ownedBy makes an object go with the Job.
func ownedBy(job *batchv1.Job) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(false),
		BlockOwnerDeletion: ptr.To(true), // as in a launch: this is where jobs/finalizers may be needed
	}
}

// tryOperator creates a RayCluster, and waits until the operator notes that it has looked at it: one whose pods are gated, or without a plan a
// suspended one. "" for what could not be created.
func tryOperator(ctx context.Context, c *api.Client, p *objects.Plan, m metav1.ObjectMeta) ([]launcher.Check, types.UID) {
	check := launcher.Check{Name: "KubeRay", Hint: "check that the operator runs and watches this namespace"}
	rc, whole, more := suspended(m), (*rayv1.RayCluster)(nil), []manifest.NewerField(nil)
	if p != nil {
		var err error
		if whole, err = p.RayCluster(); err != nil {
			return []launcher.Check{failed(check.Name, err)}, ""
		}
		rc, more = gated(whole, m), p.Newer()
	}
	token := rc.Spec.AuthOptions != nil
	created, err := c.CreateRayCluster(ctx, rc, more)
	if err != nil {
		return []launcher.Check{failed(check.Name, err)}, ""
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, operatorPatience)
	defer cancel()
	var seen *rayv1.RayCluster
	_, err = watchtools.UntilWithSync(ctx, c.WatchOne(ctx, api.RayClusters, rc.Name), &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		var ok bool
		seen, ok = api.As[rayv1.RayCluster](event.Object)
		return ok && (seen.Status.ObservedGeneration > 0 || seen.Status.State != ""), nil //nolint:staticcheck // KubeRay 1.4 has nothing better
	})
	if err != nil {
		check.Detail = fmt.Sprintf("the operator did nothing with a RayCluster for %s", operatorPatience)
		return []launcher.Check{check}, created.GetUID()
	}
	check.OK, check.Detail = true, fmt.Sprintf("the operator works (after %.1f s)", time.Since(began).Seconds())
	switch {
	case token && rc.Spec.AuthOptions != nil:
		check.Detail += "; its ray.io/v1 knows authOptions"
	case token:
		check.Detail += "; its ray.io/v1 does not know authOptions (KubeRay before 1.5), so tokens come by the pods' environment"
	}
	if p == nil {
		return []launcher.Check{check}, created.GetUID()
	}
	held, _, _ := unstructured.NestedBool(created.Object, "spec", "suspend")
	return []launcher.Check{check, letIn(whole, seen, held)}, created.GetUID()
}

// suspended is a RayCluster at which an operator looks without making anything.
func suspended(m metav1.ObjectMeta) *rayv1.RayCluster {
	rc := &rayv1.RayCluster{
		TypeMeta: metav1.TypeMeta{APIVersion: rayv1.GroupVersion.String(), Kind: "RayCluster"}, ObjectMeta: m,
		Spec: rayv1.RayClusterSpec{Suspend: ptr.To(true), RayVersion: "2.52.0", AuthOptions: &rayv1.AuthOptions{Mode: rayv1.AuthModeToken, SecretName: ptr.To("none")}},
	}
	rc.Spec.HeadGroupSpec.RayStartParams = map[string]string{}
	rc.Spec.HeadGroupSpec.Template.Spec.Containers = []corev1.Container{{Name: "ray-head", Image: "none"}}
	return rc
}
