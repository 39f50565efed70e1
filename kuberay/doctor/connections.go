package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
)

// Names of checks that several places make.
const podsAndDNS, connections = "pods and DNS", "connections"

// triedPorts stand for those on which the pods of a cluster connect to each other, see flowsOf. They are the same in all clusters.
var triedPorts = []int32{gcsPort, workerPort, chosenPort, objects.KeeperPort}

// tryPods starts a pod that listens, and then one that connects to it, looks up a name and asks what the keeper's account may: two at a time, on two nodes where there
// is room, because a network may treat them differently. helper is the second one, if its program has ended.
func tryPods(ctx context.Context, c *api.Client, p *objects.Plan, first *batchv1.Job, cluster string) (checks []launcher.Check, helper *corev1.Pod) {
	untried := launcher.Check{Name: connections, OK: true, Detail: "not checked, because no two pods ran"}
	listening := awaitPod(ctx, c, first, listens)
	if listening.err != nil || !listens(listening.pod) {
		return []launcher.Check{listening.judge(c.Namespace, first.Name, "listen on ports "+portsOf(triedPorts)), untried}, nil
	}
	job := connectingJob(c, p, first, listening.pod.Status.PodIP, cluster)
	second, err := c.Core.BatchV1().Jobs(c.Namespace).Create(ctx, job, metav1.CreateOptions{FieldManager: objects.ManagedBy})
	if err != nil {
		return []launcher.Check{failed(podsAndDNS, api.Explain(err, "create", "jobs.batch", c)), untried}, nil
	}
	connecting := awaitPod(ctx, c, second, func(*corev1.Pod) bool { return false })
	checks = []launcher.Check{connecting.judge(c.Namespace, second.Name, "look up kubernetes.default.svc"), untried}
	if connecting.err != nil || !observe.Finished(connecting.pod, doctorContainer) {
		return checks, nil
	}
	checks[1] = connected(listening.pod, connecting.pod)
	if !checks[0].OK {
		return checks, nil
	}
	return checks, connecting.pod
}

// listens reports whether others can connect to the pod now, or in a moment.
func listens(pod *corev1.Pod) bool {
	return pod != nil && pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == doctorContainer && s.State.Running != nil
	})
}

// connectingJob is that of the second pod; it goes with the first one's.
func connectingJob(c *api.Client, p *objects.Plan, first *batchv1.Job, address, cluster string) *batchv1.Job {
	orders, account := podOrders{Reach: address, Ports: triedPorts}, kuberayspec.Of(p.Spec).KeeperServiceAccountName
	if account != "" {
		orders.Account = cluster
	}
	job := podJob(c, p, first.Name+"-2", orders)
	job.OwnerReferences = []metav1.OwnerReference{ownedBy(first)}
	withAccount(&job.Spec.Template.Spec, account)
	elsewhere(&job.Spec.Template.Spec)
	return job
}

// podJob runs the program with these orders in a pod like the keeper's.
func podJob(c *api.Client, p *objects.Plan, name string, orders podOrders) *batchv1.Job {
	labels := map[string]string{labelDoctor: name}
	own := objects.Merged(labels)
	if p.HelperQueue != "" {
		own[admit.HelperQueueLabel()] = p.HelperQueue
	}
	argument, _ := json.Marshal(orders) //nolint:errchkjson // numbers and strings
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: own},
		Spec:       batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64((2*podPatience + operatorPatience).Seconds())), TTLSecondsAfterFinished: ptr.To(int32(60)), BackoffLimit: ptr.To(int32(0))},
	}
	job.Spec.Template = p.HelperPod("doctor", corev1.Container{Name: doctorContainer, Command: []string{"python3", "-E", "-s", "-c", podProgram, string(argument)}})
	// What the keeper's pod has by kuberay.keeperPatch and for meshes; it is nobody's cluster. Of rayctl's own labels NetworkPolicies need one.
	ofPod := objects.Merged(job.Spec.Template.Labels)
	for _, name := range []string{objects.LabelName, objects.LabelOwner, objects.LabelRole} {
		delete(ofPod, name)
	}
	job.Spec.Template.Labels = objects.Merged(ofPod, labels, map[string]string{objects.LabelManagedBy: objects.ManagedBy})
	return job
}

// elsewhere prefers a node on which no other pod of doctor's runs, unless kuberay.keeperPatch says where pods run.
func elsewhere(pod *corev1.PodSpec) {
	if pod.Affinity != nil {
		return
	}
	others := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelDoctor, Operator: metav1.LabelSelectorOpExists}}}
	pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: others}},
	}}}
}

// portsOf is a list of ports for people.
func portsOf(ports []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ports), " ", ", "), "[]")
}

// connected is the check whether one pod reached the other.
func connected(listening, connecting *corev1.Pod) launcher.Check {
	where := "the same node"
	if listening.Spec.NodeName != connecting.Spec.NodeName {
		where = "another node"
	}
	check := launcher.Check{Name: connections}
	r := reportOf(connecting)
	switch {
	case r.Unreached == nil:
		check.OK, check.Detail = true, "not checked, because the second pod said nothing about it"
	case len(r.Unreached) == 0:
		check.OK, check.Detail = true, fmt.Sprintf("a pod reaches one on %s at ports %s", where, portsOf(triedPorts))
	default:
		var why []string
		for _, port := range slices.Sorted(maps.Keys(r.Unreached)) {
			why = append(why, port+" ("+r.Unreached[port]+")")
		}
		check.Detail = fmt.Sprintf("a pod does not reach one on %s at ports %s", where, strings.Join(why, ", "))
		check.Hint = "if the namespace's network denies by default, `rayctl render --networkpolicy` prints the missing policies; else ask your administrators what keeps its pods apart"
	}
	return check
}
