package objects

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
)

// Ports outside of a cluster to which its pods connect.
const (
	DNSPort = 53
	// The API server's ports: that of its Service, and that of the server itself. Most networks apply a policy to the latter, because they rewrite the
	// destination first (Kubernetes' documentation, "Network Policies", "cluster ingress and egress mechanisms often require rewriting the source or
	// destination IP").
	apiServicePort = 443
	APIServerPort  = 6443
)

// NetworkPolicies returns the policies that rayctl's clusters need in a namespace that denies connections by default. They select the pods of all clusters of
// rayctl there. Each policy allows some connections in one direction, and thereby denies all others in that direction, as every NetworkPolicy does for the pods
// that it selects. They are therefore only for namespaces that deny these connections anyway.
func NetworkPolicies(namespace string) []*networkingv1.NetworkPolicy {
	ours := metav1.LabelSelector{MatchLabels: map[string]string{LabelManagedBy: ManagedBy}}
	heads := metav1.LabelSelector{MatchLabels: map[string]string{LabelManagedBy: ManagedBy, RayNodeTypeLabel: HeadNodeType}}
	keepers := metav1.LabelSelector{MatchLabels: map[string]string{LabelManagedBy: ManagedBy, LabelRole: RoleKeeper}}
	policy := func(name string, pods metav1.LabelSelector, s networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
		s.PodSelector = pods
		return &networkingv1.NetworkPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{LabelManagedBy: ManagedBy}}, Spec: s,
		}
	}
	port := func(protocol corev1.Protocol, n int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromInt32(n))}
	}
	toServer := networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: []networkingv1.NetworkPolicyEgressRule{
			{Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, apiServicePort), port(corev1.ProtocolTCP, APIServerPort)}},
		},
	}
	among := []networkingv1.NetworkPolicyPeer{{PodSelector: &ours}}
	return []*networkingv1.NetworkPolicy{
		policy("rayctl-ingress", ours, networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: []networkingv1.NetworkPolicyIngressRule{{From: among}},
		}),
		policy("rayctl-egress", ours, networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: []networkingv1.NetworkPolicyEgressRule{
				{To: among}, {Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, DNSPort), port(corev1.ProtocolTCP, DNSPort)}},
			},
		}),
		policy(autoscalerPolicy, heads, toServer),
		policy(keeperPolicy, keepers, toServer),
	}
}

// The policies that not all clusters need.
const autoscalerPolicy, keeperPolicy = "rayctl-autoscaler", "rayctl-keeper"

// why has the comment at the top of each policy's file: what the policy is for.
var why = map[string]string{
	"rayctl-ingress": `For namespaces that deny connections into pods. It allows connections between the pods of rayctl's clusters (Ray's nodes, keeper, record), on
all ports, because Ray chooses ports. A client's port-forward and the kubelet's probes come from the pod's own node, from which networks allow
connections. Other clients need a further rule to port ` + strconv.Itoa(DashboardPort) + ` of heads and ` + strconv.Itoa(KeeperPort) + ` of keepers: clients in other pods of this Kubernetes, and the
API server, if clients use its proxy of Services instead of port-forward. The KubeRay operator and ` + admit.Titles() + ` connect to no pod of a RayCluster.`,
	"rayctl-egress": `For namespaces that deny connections out of pods. It allows connections to the pods of rayctl's clusters, and DNS. Do not apply it in
other namespaces: it denies all other connections, also those of jobs. If jobs need more (data, package indexes, object stores), add rules for it.`,
	autoscalerPolicy: `For namespaces that deny connections out of pods, and only for clusters with elastic groups (maxReplicas above minReplicas): the autoscaler in
the head's pod changes the RayCluster. 443 and 6443 are the usual ports of an API server; if you know its address and port, use them instead.`,
	keeperPolicy: `For namespaces that deny connections out of pods, and only for clusters with kuberay.keeperServiceAccountName: the keeper asks the API server
which nodes are going to be taken away. 443 and 6443 are the usual ports of an API server; if you know its address and port, use them instead.`,
}

// RenderNetworkPolicies renders NetworkPolicies as files. With an empty namespace, kubectl applies them to its current one. The policies of the autoscaler and of
// the keeper are left out if the cluster does not need them.
func RenderNetworkPolicies(p *Plan, namespace string) ([]launcher.File, error) {
	rc, err := p.RayCluster()
	if err != nil {
		return nil, err
	}
	unneeded := map[string]bool{
		autoscalerPolicy: !ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false), keeperPolicy: kuberayspec.Of(p.Spec).KeeperServiceAccountName == "",
	}
	var files []launcher.File
	for _, policy := range NetworkPolicies(namespace) {
		if unneeded[policy.Name] {
			continue
		}
		content, err := applicable(policy)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", policy.Name, err)
		}
		text, err := kyaml.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", policy.Name, err)
		}
		comment := "# " + strings.ReplaceAll(why[policy.Name], "\n", "\n# ") + "\n"
		files = append(files, launcher.File{Name: "networkpolicy-" + policy.Name + ".yaml", Content: append([]byte(comment), text...)})
	}
	return files, nil
}
