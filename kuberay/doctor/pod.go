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

// podProgram is what doctor's pods do, see there.
//
//go:embed pod.py
var podProgram string

// podOrders are its argument.
type podOrders struct {
	Listen  int     `json:"listen,omitempty"` // seconds
	Reach   string  `json:"reach,omitempty"`  // an address
	Ports   []int32 `json:"ports"`
	Account string  `json:"account,omitempty"` // the name of the cluster, for Roles that name the Job which may be deleted
}

// podReport is what it leaves as the termination message of its container.
type podReport struct {
	Unreached map[string]string // why, by port
	Refused   []string          // of what the keeper's account is for: "list nodes"
	Asked     int               // how many permissions it is for
	Unknown   string            // why the API server did not say what the account may
}

// withAccount gives doctor's pod the keeper's account.
func withAccount(pod *corev1.PodSpec, account string) {
	if account != "" {
		pod.ServiceAccountName, pod.AutomountServiceAccountToken = account, ptr.To(true)
	}
}

// tried is what became of a pod of doctor's.
type tried struct {
	pod     *corev1.Pod     // nil: none was made
	refused runstate.Reason // by admission, as the Job controller reports it
	err     error           // the pod did not get so far in podPatience
}

// awaitPod waits until a Job's pod is so far or stuck, or was refused.
func awaitPod(ctx context.Context, c *api.Client, job *batchv1.Job, far func(*corev1.Pod) bool) (t tried) {
	ctx, cancel := context.WithTimeout(ctx, podPatience)
	defer cancel()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if t.refused = refusedJob(ctx, c, job.Name, job.UID); t.refused.Code != "" {
			cancel()
		}
	}()
	t.err = c.AwaitPods(ctx, labelDoctor+"="+job.Name+",batch.kubernetes.io/job-name", func(event watch.Event) (bool, error) {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			t.pod = pod
		}
		return t.pod != nil && (far(t.pod) || observe.Finished(t.pod, doctorContainer) || observe.Stuck(t.pod) != ""), nil
	})
	cancel()
	<-watching
	return t
}

// judge is the check that a pod has done this, or why it could not.
func (t tried) judge(namespace, job, task string) launcher.Check {
	check := launcher.Check{Name: podsAndDNS, Hint: "see why with `kubectl describe pod -n " + namespace + " -l " + labelDoctor + "=" + job + "`"}
	switch {
	case t.err == nil && observe.Succeeded(t.pod, doctorContainer):
		check.OK, check.Detail = true, "a pod starts and resolves kubernetes.default.svc"
	case t.refused.Code != "":
		check.Detail, check.Hint = t.refused.Message, t.refused.Hint
	case t.err == nil && observe.Finished(t.pod, doctorContainer):
		check.Detail = "a pod cannot " + task + ": " + observe.EndOfPod(t.pod, doctorContainer)
	case t.pod == nil:
		check.Detail = fmt.Sprintf("no pod was made for a Job within %s", podPatience)
	case observe.Stuck(t.pod) == "":
		check.OK, check.Detail = true, fmt.Sprintf("not checked: within %s %s; a launch waits longer", launcher.Human(podPatience.Seconds()), notYet(t.pod))
	default:
		check.Detail = "a small pod does not start: " + observe.Stuck(t.pod)
	}
	return check
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
