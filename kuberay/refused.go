package kuberay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Why the API server does not let a pod be created. All but quotaFull cannot pass while neither the cluster file nor the namespace changes.
const (
	quotaFull      = "QuotaFull"      // it fits into the quota, but not beside what is there now
	quotaTooSmall  = "QuotaTooSmall"  // it does not fit into the quota at all
	quotaUndefined = "QuotaUndefined" // the quota counts a resource of which the pod says nothing
	limitRange     = "LimitRange"
	podSecurity    = "PodSecurity"
	policyDenied   = "PolicyDenied"  // by a ValidatingAdmissionPolicy
	webhookDenied  = "WebhookDenied" // webhooks look at other objects as well, which may change
	podInvalid     = "PodInvalid"
	notThere       = "ReferenceMissing" // a service account or priority class, which may come late
)

// refusedPod is a pod that is not let in: of what part of the cluster, and how many of it the cluster cannot do without.
type refusedPod struct {
	part     string // such as "group w"
	file     string // where the cluster file describes it: head, workers[]; "" for what does not come from it
	needed   int
	template corev1.PodSpec
	others   []wanted // pods of other parts
}

// wanted are n like pods.
type wanted struct {
	n   int
	pod corev1.PodSpec
}

// The API server's sentence, which controllers pass on with words of their own in front. A pod's generated name is another one at each try.
var (
	refusedObject = regexp.MustCompile(`(?s)\b[Pp]ods? "[^"]*" is (?:forbidden|invalid): (.*)`)
	quotaExceeded = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.*), used: (.*), limited: (.*)$`)
	quotaSilent   = regexp.MustCompile(`failed quota: ([^:]+): must specify (.*)$`)
	policyName    = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
)

// explain makes a reason of a refusal: the sentence without what differs at each try, and the key of the cluster file that answers it. The
// code is `unknown` where it is not known whether it can pass.
// The sentences: Kubernetes' plugin/pkg/admission (resourcequota/controller.go, limitranger), pod-security-admission and
// apiserver/pkg/admission/plugin (policy/validating, webhook).
func (r refusedPod) explain(message, unknown string) runstate.Reason {
	text := strings.TrimSpace(message)
	if m := refusedObject.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	out := runstate.Reason{Code: unknown}
	switch {
	case quotaExceeded.MatchString(text):
		out.Code, text, out.Hint = r.quota(quotaExceeded.FindStringSubmatch(text))
	case quotaSilent.MatchString(text):
		m := quotaSilent.FindStringSubmatch(text)
		out.Code, out.Hint = quotaUndefined, r.answer(keysFor(m[2], strings.Contains(m[2], "limits.cpu")), "or ask for a LimitRange with defaults")
	case strings.Contains(text, "violates PodSecurity"):
		out.Code, out.Hint = podSecurity, r.answer([]string{"patch", "mounts"}, "or use a namespace with another profile (kuberay.namespace)")
	case policyName.MatchString(text):
		out.Code, out.Hint = policyDenied, r.answer(keysIn(text), "or ask for an exception of policy "+policyName.FindStringSubmatch(text)[1])
	case strings.Contains(text, "admission webhook") && strings.Contains(text, "denied the request"):
		out.Code, out.Hint = webhookDenied, r.answer(keysIn(text), "or ask those who run the webhook")
	case strings.Contains(text, "usage per") || strings.Contains(text, "limit to request ratio per"):
		out.Code, out.Hint = limitRange, r.answer(keysFor(text, strings.Contains(text, "no limit is specified")), "or ask for another LimitRange")
	case strings.Contains(text, "error looking up service account"):
		out.Code, out.Hint = notThere, "create it, or set kuberay.serviceAccountName"
	case strings.Contains(text, "no PriorityClass with name"):
		out.Code, out.Hint = notThere, "create it, or set kuberay.priorityClassName"
	case strings.Contains(message, " is invalid: "):
		out.Code, out.Hint = podInvalid, r.answer([]string{"patch"}, "")
	}
	if r.needed == 0 {
		out.Code = unknown // the start does not wait for it
	}
	out.Message = fmt.Sprintf("a pod of %s is refused: %s", r.part, strings.ReplaceAll(text, "\n", " "))
	return out
}

// quota judges "exceeded quota": whether what the cluster cannot do without fits into it at all. How much is used just now is left out of the
// sentence: it changes, and is no news.
func (r refusedPod) quota(m []string) (code, text, hint string) {
	name, requested, limited := m[1], amounts(m[2]), amounts(m[4])
	code, hint = quotaFull, "it waits until the namespace has room; free some of the quota, or ask for more"
	var keys, sums []string
	for _, resourceName := range sorted(requested) {
		limit, known := limited[resourceName]
		sum := r.sum(resourceName, requested[resourceName])
		if !known || sum.Cmp(limit) <= 0 {
			continue
		}
		code = quotaTooSmall
		keys = append(keys, keysFor(resourceName, strings.HasPrefix(resourceName, "limits.cpu"))...)
		sums = append(sums, resourceName+"="+sum.String())
	}
	text = fmt.Sprintf("exceeded quota: %s, requested: %s, limited: %s", name, m[2], m[4])
	if code == quotaTooSmall {
		text += fmt.Sprintf("; the cluster as a whole needs %s", strings.Join(sums, ","))
		hint = r.answer(keys, "or ask for a larger quota "+name)
	}
	return code, text, hint
}

// sum is what the cluster as a whole takes of a quota's resource: all that is needed of the refused pod, and all other pods that the quota
// certainly counts as well, being of the same priority class.
func (r refusedPod) sum(name string, requested resource.Quantity) resource.Quantity {
	sum := requested.DeepCopy()
	sum.Mul(int64(max(1, r.needed)))
	for _, o := range r.others {
		if o.pod.PriorityClassName == r.template.PriorityClassName {
			q := usage(o.pod, name)
			q.Mul(int64(o.n))
			sum.Add(q)
		}
	}
	return sum
}

// usage is what a quota counts of a pod, as far as the pod says it itself.
func usage(p corev1.PodSpec, name string) resource.Quantity {
	var sum resource.Quantity
	if name == "pods" || name == "count/pods" {
		return resource.MustParse("1")
	}
	plain, limits := strings.CutPrefix(name, "limits.")
	plain = strings.TrimPrefix(plain, "requests.")
	for _, c := range p.Containers {
		q, known := c.Resources.Requests[corev1.ResourceName(plain)]
		if limits || !known { // Kubernetes takes the limit for the request where there is none
			q = c.Resources.Limits[corev1.ResourceName(plain)]
		}
		sum.Add(q)
	}
	return sum
}

// amounts reads "a=1,b=2Gi".
func amounts(text string) map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if q, err := resource.ParseQuantity(value); err == nil {
			out[strings.TrimSpace(name)] = q
		}
	}
	return out
}

func sorted(amounts map[string]resource.Quantity) (names []string) {
	for name := range amounts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// answer is the next step: which keys of the cluster file to change, or what else.
func (r refusedPod) answer(keys []string, or string) string {
	switch r.file {
	case "":
		return strings.TrimPrefix(or, "or ") + ", or set kuberay.keeper: none"
	case byManifest:
		return strings.TrimSuffix("change the pods of "+r.part+" in kuberay.rayCluster, "+or, ", ")
	}
	var whole []string
	for _, k := range keys {
		switch {
		case k == "replicas":
			k = workersOf + "." + k
		case k == ownLimits, !strings.Contains(k, ".") && !slices.Contains(ofCluster, k):
			k = r.file + "." + k
		}
		if !slices.Contains(whole, k) {
			whole = append(whole, k)
		}
	}
	out := "change " + strings.Join(whole, " or ")
	if r.file == workersOf {
		out += " of " + r.part
	}
	return strings.TrimSuffix(out+", "+or, ", ")
}

const (
	workersOf  = "workers[]"
	byManifest = "kuberay.rayCluster"
	ownLimits  = "kuberay.limits" // of a group
)

// ofCluster are keys that belong to the whole file, not to a group.
var ofCluster = []string{"mounts", "labels"}

// keysFor are the keys of a group that decide about resources a sentence names. CPU has no limit unless kuberay.limits gives one.
func keysFor(text string, limits bool) (keys []string) {
	for _, k := range []struct{ word, key string }{{"memory", "memory"}, {"cpu", "cpus"}, {"gpu", "gpus"}, {"pods", "replicas"}} {
		if strings.Contains(text, k.word) && (!limits || k.key != "cpus") {
			keys = append(keys, k.key)
		}
	}
	if limits && strings.Contains(text, "cpu") || len(keys) == 0 {
		keys = append(keys, ownLimits)
	}
	return keys
}

// keysIn guesses the key from the words of a policy's own sentence; `patch` can change anything.
func keysIn(text string) (keys []string) {
	if _, said, found := strings.Cut(text, "denied request: "); found {
		text = said // without the policy's name
	}
	text = strings.ToLower(text)
	for _, k := range []struct{ word, key string }{
		{"image", "image"}, {"registry", "image"}, {"label", "labels"}, {"annotation", "kuberay.annotations"}, {"serviceaccount", "kuberay.serviceAccountName"},
		{"service account", "kuberay.serviceAccountName"}, {"priorit", "kuberay.priorityClassName"}, {"toleration", "kuberay.tolerations"},
		{"nodeselector", "kuberay.nodeSelector"}, {"node selector", "kuberay.nodeSelector"}, {"memory", "memory"}, {"cpu", "cpus"}, {"gpu", "gpus"},
	} {
		if strings.Contains(text, k.word) && !slices.Contains(keys, k.key) {
			keys = append(keys, k.key)
		}
	}
	return append(keys, "patch")
}

// refusedRay finds out whose pod KubeRay could not create: the condition's reason says head or worker, the pod's name the group.
func (o *snapshot) refusedRay(code, message string) (r refusedPod) {
	rc := o.cluster
	defer func() {
		if o.job != nil { // its pod and the record's, which is alike
			r.others = append(r.others, wanted{2, o.job.Spec.Template.Spec})
		}
	}()
	if code == "FailedCreateWorkerPod" {
		for i, g := range rc.Spec.WorkerGroupSpecs {
			if len(rc.Spec.WorkerGroupSpecs) > 1 && !strings.Contains(message, `"`+rc.Name+"-"+strings.ToLower(g.GroupName)+"-worker-") {
				continue
			}
			r = groupRefused(rc, i)
			if o.podsOfGroup(g.GroupName) >= r.needed {
				r.needed = 0
			}
			return r
		}
		return refusedPod{part: "a worker group", file: workersOf, needed: 1}
	}
	r = refusedPod{part: "the head", file: "head", needed: 1, template: rc.Spec.HeadGroupSpec.Template.Spec}
	for i := range rc.Spec.WorkerGroupSpecs {
		r.others = append(r.others, wanted{neededOf(rc, i), rc.Spec.WorkerGroupSpecs[i].Template.Spec})
	}
	if rc.Spec.HeadGroupSpec.RayStartParams["num-cpus"] != "0" && len(rc.Spec.WorkerGroupSpecs) > 0 {
		r.file = workersOf // the first worker of the group that head.on names
	}
	if adoptedPod(r.template) {
		r.file = byManifest
	}
	return r
}

// refusedHelper is the keeper's pod, of which the cluster file describes nothing but the image.
func (o *snapshot) refusedHelper() refusedPod {
	pod := o.job.Spec.Template.Spec
	r := refusedPod{part: "the keeper", needed: 1, template: pod, others: []wanted{{1, pod}}} // the record's is alike
	if o.cluster == nil {
		return r
	}
	r.others = append(r.others, wanted{1, o.cluster.Spec.HeadGroupSpec.Template.Spec})
	for i := range o.cluster.Spec.WorkerGroupSpecs {
		r.others = append(r.others, wanted{neededOf(o.cluster, i), o.cluster.Spec.WorkerGroupSpecs[i].Template.Spec})
	}
	return r
}

// podsOfGroup counts the pods that a worker group has.
func (o *snapshot) podsOfGroup(group string) (n int) {
	for _, p := range o.rayPods() {
		if p.Labels[rayGroupLabel] == group && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func groupRefused(rc *rayv1.RayCluster, i int) refusedPod {
	r := refusedPod{part: "group " + rc.Spec.WorkerGroupSpecs[i].GroupName, file: workersOf, needed: neededOf(rc, i), template: rc.Spec.WorkerGroupSpecs[i].Template.Spec}
	r.others = append(r.others, wanted{1, rc.Spec.HeadGroupSpec.Template.Spec})
	for j := range rc.Spec.WorkerGroupSpecs {
		if j != i {
			r.others = append(r.others, wanted{neededOf(rc, j), rc.Spec.WorkerGroupSpecs[j].Template.Spec})
		}
	}
	if adoptedPod(r.template) {
		r.file = byManifest
	}
	return r
}

// neededOf is how many pods of a worker group the start waits for.
func neededOf(rc *rayv1.RayCluster, i int) int {
	n, least := gang.Pods(&rc.Spec.WorkerGroupSpecs[i])
	if ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
		return least
	}
	return n
}

// adoptedPod says of a pod template that it came with a RayCluster of the user's: ours have our files, see addStart.
func adoptedPod(p corev1.PodSpec) bool {
	return !slices.ContainsFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == "rayctl" })
}
