package doctor

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// podProgram is what the pod does: it looks up a name that every Kubernetes has, and asks what its account may.
//
//go:embed pod.py
var podProgram string

// podReport is what it leaves as the termination message of its container.
type podReport struct {
	Refused []string // of what the keeper's account is for: "list nodes"
	Asked   int      // how many permissions it is for
	Unknown string   // why the API server did not say what the account may
}

// withAccount gives doctor's pod the keeper's account; the cluster's name is for Roles that name the Job which may be deleted.
func withAccount(pod *corev1.PodSpec, account, cluster string) {
	if account == "" {
		return
	}
	pod.ServiceAccountName, pod.AutomountServiceAccountToken = account, ptr.To(true)
	for i := range pod.Containers {
		if own := &pod.Containers[i]; own.Name == doctorContainer {
			own.Command = append(own.Command, "account", cluster)
		}
	}
}

// tryPod waits until the pod's program has ended, or until the Job controller reports that the pod was refused. The pod is nil if its program has not ended well.
func tryPod(ctx context.Context, c *api.Client, job *batchv1.Job) (launcher.Check, *corev1.Pod) {
	check := launcher.Check{Name: "pods and DNS", Hint: "see why with `kubectl describe pod -n " + c.Namespace + " -l " + labelDoctor + "=" + job.Name + "`"}
	ctx, cancel := context.WithTimeout(ctx, podPatience)
	defer cancel()
	var refused runstate.Reason
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if refused = refusedJob(ctx, c, job.Name, job.UID); refused.Code != "" {
			cancel()
		}
	}()
	var last *corev1.Pod
	err := c.AwaitPods(ctx, labelDoctor+"="+job.Name+",batch.kubernetes.io/job-name", func(event watch.Event) (bool, error) {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			last = pod
		}
		return last != nil && (observe.Finished(last, doctorContainer) || observe.Stuck(last) != ""), nil
	})
	cancel()
	<-watching
	switch {
	case err == nil && observe.Succeeded(last, doctorContainer):
		check.OK, check.Detail = true, "a pod starts and resolves kubernetes.default.svc"
		return check, last
	case refused.Code != "":
		check.Detail, check.Hint = refused.Message, refused.Hint
	case err == nil && observe.Finished(last, doctorContainer):
		check.Detail = "a pod cannot look up kubernetes.default.svc: " + observe.EndOfPod(last, doctorContainer)
	case last == nil:
		check.Detail = fmt.Sprintf("no pod was made for a Job within %s", podPatience)
	case observe.Stuck(last) == "":
		check.OK, check.Detail = true, fmt.Sprintf("not checked: within %s %s; a launch waits longer", launcher.Human(podPatience.Seconds()), notYet(last))
	default:
		check.Detail = "a small pod does not start: " + observe.Stuck(last)
	}
	return check, nil
}

// notYet is what a pod that does not run yet waits for.
func notYet(p *corev1.Pod) string {
	if why := observe.NotScheduled(p); why != "" {
		return "no node had room for a small pod (" + why + "), which an autoscaler may change"
	}
	return "a small pod did not get further than " + cmp.Or(string(p.Status.Phase), string(corev1.PodPending))
}

// headOf is the head's pod of doctor's RayCluster, none of which runs; nil: it was not let in.
func headOf(ctx context.Context, c *api.Client, cluster string) *corev1.Pod {
	list, err := c.Core.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: objects.RayClusterLabel + "=" + cluster + "," + objects.RayNodeTypeLabel + "=" + objects.HeadNodeType})
	if err != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

// checkHelper judges what admission has made of a pod like the keeper's, and what its account may.
func checkHelper(helper, head *corev1.Pod, account string) (checks []launcher.Check) {
	mayDelete := false
	if account != "" {
		var check launcher.Check
		check, mayDelete = checkAccount(reportOf(helper), account)
		checks = append(checks, check)
	}
	if endless := observe.Endless(helper, doctorContainer); len(endless) > 0 {
		check := launcher.Check{Name: "sidecars", Detail: observe.Holds(endless), Hint: observe.HoldsHint}
		if mayDelete {
			check = launcher.Check{Name: check.Name, OK: true, Detail: "the keeper deletes its Job when the job has ended, although other containers of its pod may not end: " + strings.Join(endless, ", ")}
		}
		checks = append(checks, check)
	}
	if head != nil {
		if proxy, hint := observe.NotInMesh(head, helper); proxy != "" {
			checks = append(checks, launcher.Check{Name: "mesh", OK: true, Detail: fmt.Sprintf(
				"the head's pod has the container %s, and the keeper's has not: if the mesh accepts no connections from outside, %s", proxy, hint)})
		}
	}
	return checks
}

// deletesJobs is what podProgram calls the permission without which other containers may keep the keeper's Job.
const deletesJobs = "delete jobs.batch"

// checkAccount reports what the keeper's account may. An account may be for one of its purposes only.
func checkAccount(r podReport, account string) (check launcher.Check, mayDelete bool) {
	check = launcher.Check{Name: "keeper's account", OK: true}
	refused := strings.Join(r.Refused, ", ")
	switch {
	case r.Unknown != "":
		check.Detail = "not checked: a pod with the account " + account + " cannot ask the API server what it may: " + r.Unknown
		return check, false
	case len(r.Refused) == 0:
		check.Detail = account + " may do all that the keeper does with it"
		return check, true
	case len(r.Refused) >= r.Asked:
		check.OK, check.Detail = false, account+" may do nothing that the keeper does with it: "+refused
		check.Hint = "give the account a Role with what it is for (`rayctl help kuberay`), or leave out kuberay.keeperServiceAccountName"
	default:
		check.Detail = account + " may not " + refused + ", and the keeper does without"
	}
	return check, !strings.Contains(refused, deletesJobs)
}

// reportOf is what the pod's program has said.
func reportOf(p *corev1.Pod) (r podReport) {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == doctorContainer && s.State.Terminated != nil {
			if err := json.Unmarshal([]byte(s.State.Terminated.Message), &r); err != nil {
				r.Unknown = "it printed nothing"
			}
		}
	}
	return r
}
