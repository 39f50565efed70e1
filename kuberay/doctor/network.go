package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
)

// endpoint is one end of a connection: a pod of the cluster, or something outside of it.
type endpoint struct {
	what   string
	labels labels.Set // nil: outside, at an address that is not known here
}

// flow is a connection that a cluster needs.
type flow struct {
	from, to endpoint
	protocol corev1.Protocol
	port     int32
	what     string // of the port
}

// checkNetwork checks whether the namespace's NetworkPolicies, if they may be listed, allow the connections that a cluster needs. It does not see whether the
// network enforces them, nor policies of other kinds (AdminNetworkPolicy, Cilium's, Calico's).
func checkNetwork(ctx context.Context, c *api.Client, p *objects.Plan) launcher.Check {
	check := launcher.Check{Name: "network policies", OK: true}
	list, err := c.Core.NetworkingV1().NetworkPolicies(c.Namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		check.Detail = "not checked: you may not list them"
		return check
	case err != nil:
		return failed(check.Name, api.Explain(err, "list", "networkpolicies.networking.k8s.io", c))
	case len(list.Items) == 0:
		check.Detail = "the namespace has none"
		return check
	}
	flows, err := flowsOf(p)
	if err != nil {
		return failed(check.Name, err)
	}
	j := judge{policies: list.Items}
	if ns, err := c.Core.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{}); err == nil {
		j.namespace = ns.Labels
	}
	missing := j.missing(flows)
	if len(missing) == 0 {
		check.Detail = "they allow the connections that a cluster needs"
		return check
	}
	if more := len(missing) - shown; more > 0 {
		missing = append(missing[:shown], fmt.Sprintf("and %d more of the kind", more))
	}
	return launcher.Check{Name: check.Name, Detail: strings.Join(missing, "; "), Hint: "`rayctl render --networkpolicy` prints the missing policies: apply them, or ask your administrators to do so"}
}

// shown is how many missing rules the check names at most: a policy that denies everything leaves out dozens.
const shown = 4

// Ports of Ray's nodes: the GCS's, one of a worker's and one that the kernel chooses.
const gcsPort, workerPort, chosenPort = 6379, 10002, 40000

// flowsOf are the connections of the plan's cluster. Ray's nodes reach each other on the GCS's port, on those of workers (10002 to 19999) and on ports that
// the kernel chooses (Ray 2.60, "Configuring Ray", "Ports configurations"): one of each kind stands for all.
func flowsOf(p *objects.Plan) ([]flow, error) {
	rc, err := p.RayCluster()
	if err != nil {
		return nil, err
	}
	ofRay := func(what, kind, group string, t corev1.PodTemplateSpec) endpoint { // with labels as KubeRay adds them (controllers/ray/common/pod.go of 1.6)
		set := labels.Set{objects.RayClusterLabel: rc.Name, objects.RayNodeTypeLabel: kind, objects.RayGroupLabel: group, "ray.io/is-ray-node": "yes",
			"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator"}
		maps.Copy(set, t.Labels)
		return endpoint{what, set}
	}
	head := ofRay("the head", objects.HeadNodeType, objects.HeadGroup, rc.Spec.HeadGroupSpec.Template)
	nodes, helpers := []endpoint{head}, []endpoint{}
	for _, g := range rc.Spec.WorkerGroupSpecs {
		nodes = append(nodes, ofRay("group "+g.GroupName, "worker", g.GroupName, g.Template))
	}
	var flows []flow
	add := func(from, to endpoint, port int32, what string) {
		flows = append(flows, flow{from, to, corev1.ProtocolTCP, port, what})
	}
	for _, from := range nodes {
		for _, to := range nodes {
			if from.what == to.what && to.what == head.what {
				continue // a pod reaches itself
			}
			if to.what == head.what {
				add(from, to, gcsPort, "of the GCS")
			}
			add(from, to, workerPort, "one of those of Ray's workers")
			add(from, to, chosenPort, "one of those that the kernel chooses")
		}
	}
	if kuberayspec.Of(p.Spec).Keeper != objects.KeeperNone {
		keeper := endpoint{"the keeper", p.KeeperJob().Spec.Template.Labels}
		record := endpoint{"the record", p.RecordJob().Spec.Template.Labels}
		helpers = append(helpers, keeper, record)
		add(keeper, head, objects.DashboardPort, "of the dashboard")
		add(record, keeper, objects.KeeperPort, "of the keeper")
		for _, n := range nodes { // pods report to it
			if p.Spec.Setup != "" || p.Spec.Head.Early || p.Placed() && n.what != head.what {
				add(n, keeper, objects.KeeperPort, "of the keeper")
			}
		}
	}
	for _, from := range slices.Concat(nodes, helpers) {
		flows = append(flows, flow{from, endpoint{what: "the name service"}, corev1.ProtocolUDP, objects.DNSPort, "of DNS"})
	}
	if ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
		add(head, endpoint{what: "the API server"}, objects.APIServerPort, "of its autoscaler's requests")
	}
	if len(helpers) > 0 && kuberayspec.Of(p.Spec).KeeperServiceAccountName != "" {
		add(helpers[0], endpoint{what: "the API server"}, objects.APIServerPort, "of its watch of nodes")
	}
	return flows, nil
}

// judge decides which flows the policies of a namespace allow.
type judge struct {
	policies  []networkingv1.NetworkPolicy
	namespace labels.Set // the namespace's labels; nil if they cannot be read: then each rule for namespaces counts as one for this namespace
}

// missing returns a sentence for each flow that is denied. Of several flows between the same two ends in the same direction it names the first.
func (j judge) missing(flows []flow) (out []string) {
	seen := map[string]bool{}
	say := func(f flow, direction networkingv1.PolicyType, at, other endpoint, toOrFrom string) {
		key := string(direction) + at.what + other.what
		by := j.denies(f, direction, at, other)
		if len(by) == 0 || seen[key] {
			return
		}
		seen[key] = true
		policies := "policy"
		if len(by) > 1 {
			policies = "policies"
		}
		out = append(out, fmt.Sprintf("%s of %s is denied by %s %s, and no rule allows it %s %s, %s port %d (%s)",
			strings.ToLower(string(direction)), at.what, policies, strings.Join(by, " and "), toOrFrom, other.what, f.protocol, f.port, f.what))
	}
	for _, f := range flows {
		if f.from.labels != nil {
			say(f, networkingv1.PolicyTypeEgress, f.from, f.to, "to")
		}
		if f.to.labels != nil {
			say(f, networkingv1.PolicyTypeIngress, f.to, f.from, "from")
		}
	}
	return out
}

// denies returns the names of the policies that select the pod at for this direction, if none of them allows the flow; nil if one does, or if no policy selects
// the pod: then everything is allowed.
func (j judge) denies(f flow, direction networkingv1.PolicyType, at, other endpoint) (by []string) {
	for i := range j.policies {
		p := &j.policies[i]
		if !slices.Contains(p.Spec.PolicyTypes, direction) || !matches(&p.Spec.PodSelector, at.labels) {
			continue
		}
		if j.allows(p, f, direction, other) {
			return nil
		}
		by = append(by, p.Name)
	}
	return by
}

func (j judge) allows(p *networkingv1.NetworkPolicy, f flow, direction networkingv1.PolicyType, other endpoint) bool {
	if direction == networkingv1.PolicyTypeIngress {
		return slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return f.onPort(r.Ports) && j.reaches(r.From, other)
		})
	}
	return slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool { return f.onPort(r.Ports) && j.reaches(r.To, other) })
}

// onPort reports whether a rule for these ports is one for the flow's port. Ports by name never are: they mean a container's port of that name, which is not
// looked up here, so that a connection which only such a rule allows is reported as denied.
func (f flow) onPort(ports []networkingv1.NetworkPolicyPort) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if ptr.Deref(p.Protocol, corev1.ProtocolTCP) != f.protocol {
			return false
		}
		return p.Port == nil || p.Port.IntVal <= f.port && f.port <= ptr.Deref(p.EndPort, p.Port.IntVal)
	})
}

// reaches reports whether a rule with these peers is one for the endpoint other, or may be: the addresses of pods are not known here, so any ipBlock may have them,
// and an endpoint outside of the cluster may be in any namespace, so any namespaceSelector may select it.
func (j judge) reaches(peers []networkingv1.NetworkPolicyPeer, other endpoint) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		switch {
		case p.IPBlock != nil:
			return true
		case other.labels == nil:
			return p.NamespaceSelector != nil
		case p.NamespaceSelector != nil && j.namespace != nil && !matches(p.NamespaceSelector, j.namespace):
			return false
		default:
			return p.PodSelector == nil || matches(p.PodSelector, other.labels)
		}
	})
}

func matches(s *metav1.LabelSelector, set labels.Set) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(set)
}
