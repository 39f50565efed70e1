package observe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Why the API server does not let a pod be created. All but QuotaFull cannot pass while neither the cluster file nor the namespace changes.
const (
	QuotaFull      = "QuotaFull"      // it fits into the quota, but not beside what is there now
	quotaTooSmall  = "QuotaTooSmall"  // it does not fit into the quota at all
	quotaUndefined = "QuotaUndefined" // the quota counts a resource that the pod does not specify
	limitRange     = "LimitRange"
	podSecurity    = "PodSecurity"
	policyDenied   = "PolicyDenied"  // by a ValidatingAdmissionPolicy, Kyverno or Gatekeeper
	webhookDenied  = "WebhookDenied" // other webhooks look at other objects as well, which may change
	podInvalid     = "PodInvalid"
	notThere       = "ReferenceMissing" // a service account or priority class, which may come late
)

// RefusedPod is a pod that is not let in: of what part of the cluster, and how many of it the cluster cannot do without.
type RefusedPod struct {
	Part     string // such as "group w"
	File     string // where the cluster file describes it: head, workers[]; "" for what does not come from it
	Needed   int
	template corev1.PodSpec
	others   []Wanted // pods of other parts
}

// Wanted are n like pods.
type Wanted struct {
	N   int
	Pod corev1.PodSpec
}

// The API server's sentence, which controllers pass on with words of their own in front. A pod's generated name is another one at each try.
var (
	refusedObject = regexp.MustCompile(`(?s)\b[Pp]ods? "[^"]*" is (?:forbidden|invalid): (.*)`)
	quotaExceeded = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.*), used: (.*), limited: (.*)$`)
	aboveLimit    = regexp.MustCompile(`must be less than or equal to (\S+) limit of ([0-9A-Za-z.]*[0-9A-Za-z])`)
	quotaSilent   = regexp.MustCompile(`failed quota: ([^:]+): must specify (.*)$`)
)

// Explain makes a reason of a refusal: the sentence without what differs at each try, and the key of the cluster file that answers it. The
// code is `unknown` where it is not known whether it can pass.
// The sentences: Kubernetes' plugin/pkg/admission (resourcequota/controller.go, limitranger), pod-security-admission and
// apiserver/pkg/admission/plugin (policy/validating, webhook).
func (r RefusedPod) Explain(message, unknown string) runstate.Reason {
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
		out.Code, out.Hint = quotaUndefined, r.Answer(KeysFor(m[2], strings.Contains(m[2], "limits.cpu")), "or ask for a LimitRange with defaults")
	case strings.Contains(text, "violates PodSecurity"):
		out.Code, out.Hint = podSecurity, r.Answer([]string{"patch", "mounts"}, "or use a namespace with another profile (kuberay.namespace)")
	case api.DenialOf(text) != nil:
		d := api.DenialOf(text)
		text = d.Text
		out.Code, out.Hint = policyDenied, r.Answer(append(d.Keys(), "patch"), d.Exception())
		if d.Webhook && len(d.Policies) == 0 || d.Asks {
			out.Code = webhookDenied
		}
	case strings.Contains(text, "usage per") || strings.Contains(text, "limit to request ratio per"):
		out.Code, out.Hint = limitRange, r.Answer(KeysFor(text, strings.Contains(text, "no limit is specified")), "or ask for another LimitRange")
	case aboveLimit.MatchString(text) && r.defaultLimit(aboveLimit.FindStringSubmatch(text)[1]):
		m := aboveLimit.FindStringSubmatch(text)
		text += fmt.Sprintf("; the pod sets no limit of %s itself: %s is the default of a LimitRange of the namespace", m[1], m[2])
		out.Code, out.Hint = limitRange, r.Answer(append(KeysFor(m[1], false), ownLimits), "or ask for another LimitRange")
	case strings.Contains(text, "error looking up service account"):
		out.Code, out.Hint = notThere, "create it, or set kuberay.serviceAccountName"
		if r.File == "" { // of keeper or record
			out.Hint = "create it, or correct kuberay.keeperServiceAccountName or kuberay.keeperPatch"
		}
	case strings.Contains(text, "no PriorityClass with name"):
		out.Code, out.Hint = notThere, "create it, or set kuberay.priorityClassName"
	case strings.Contains(message, " is invalid: "):
		out.Code, out.Hint = podInvalid, r.Answer([]string{"patch"}, "")
	}
	if r.Needed == 0 {
		out.Code = unknown // the start does not wait for it
	}
	out.Message = fmt.Sprintf("a pod of %s is refused: %s", r.Part, api.OneLine(text))
	return out
}

// defaultLimit reports whether a limit of the resource is not the pod's own: a LimitRange gives one to containers that have none.
func (r RefusedPod) defaultLimit(resource string) bool {
	return !slices.ContainsFunc(r.template.Containers, func(c corev1.Container) bool {
		_, own := c.Resources.Limits[corev1.ResourceName(resource)]
		return own
	})
}

// refusedRay finds out whose pod KubeRay could not create: the condition's reason has head or worker, the pod's name has the group.
func (o *Snapshot) refusedRay(code, message string) (r RefusedPod) {
	rc := o.Cluster
	defer func() {
		if o.Job != nil { // its pod and the record's, which is alike
			r.others = append(r.others, Wanted{2, o.Job.Spec.Template.Spec})
		}
	}()
	if code == "FailedCreateWorkerPod" {
		for i, g := range rc.Spec.WorkerGroupSpecs {
			if len(rc.Spec.WorkerGroupSpecs) > 1 && !strings.Contains(message, `"`+rc.Name+"-"+strings.ToLower(g.GroupName)+"-worker-") {
				continue
			}
			r = groupRefused(rc, i)
			if o.podsOfGroup(g.GroupName) >= r.Needed {
				r.Needed = 0
			}
			return r
		}
		return RefusedPod{Part: "a worker group", File: WorkersOf, Needed: 1}
	}
	r = RefusedPod{Part: "the head", File: "head", Needed: 1, template: rc.Spec.HeadGroupSpec.Template.Spec}
	for i := range rc.Spec.WorkerGroupSpecs {
		r.others = append(r.others, Wanted{objects.NeededOf(rc, i), rc.Spec.WorkerGroupSpecs[i].Template.Spec})
	}
	if rc.Spec.HeadGroupSpec.RayStartParams["num-cpus"] != "0" && len(rc.Spec.WorkerGroupSpecs) > 0 {
		r.File = WorkersOf // the first worker of the group that head.on names
	}
	if adoptedPod(r.template) {
		r.File = byManifest
	}
	return r
}

// refusedHelper is the keeper's pod, of which the cluster file describes nothing but the image.
func (o *Snapshot) refusedHelper() RefusedPod {
	pod := o.Job.Spec.Template.Spec
	r := RefusedPod{Part: "the keeper", Needed: 1, template: pod, others: []Wanted{{1, pod}}} // the record's is alike
	if o.Cluster == nil {
		return r
	}
	r.others = append(r.others, Wanted{1, o.Cluster.Spec.HeadGroupSpec.Template.Spec})
	for i := range o.Cluster.Spec.WorkerGroupSpecs {
		r.others = append(r.others, Wanted{objects.NeededOf(o.Cluster, i), o.Cluster.Spec.WorkerGroupSpecs[i].Template.Spec})
	}
	return r
}

// podsOfGroup counts the pods that a worker group has.
func (o *Snapshot) podsOfGroup(group string) (n int) {
	for _, p := range o.rayPods() {
		if p.Labels[objects.RayGroupLabel] == group && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func groupRefused(rc *rayv1.RayCluster, i int) RefusedPod {
	r := RefusedPod{Part: "group " + rc.Spec.WorkerGroupSpecs[i].GroupName, File: WorkersOf, Needed: objects.NeededOf(rc, i), template: rc.Spec.WorkerGroupSpecs[i].Template.Spec}
	r.others = append(r.others, Wanted{1, rc.Spec.HeadGroupSpec.Template.Spec})
	for j := range rc.Spec.WorkerGroupSpecs {
		if j != i {
			r.others = append(r.others, Wanted{objects.NeededOf(rc, j), rc.Spec.WorkerGroupSpecs[j].Template.Spec})
		}
	}
	if adoptedPod(r.template) {
		r.File = byManifest
	}
	return r
}

// adoptedPod reports whether a pod template is of the user's own RayCluster: those that rayctl makes mount its files, see addStart in package objects.
func adoptedPod(p corev1.PodSpec) bool {
	return !slices.ContainsFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == "rayctl" })
}
