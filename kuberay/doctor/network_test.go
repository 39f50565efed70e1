package doctor

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/spec"
)

const grows = `
launcher: kuberay
name: net
image: rayproject/ray:2.60.0
gang: false
workers: [{name: w, replicas: 2, minReplicas: 1, maxReplicas: 3}]
labels: {team: rl}
kuberay: {keeperServiceAccountName: watcher}
`

// TestNetwork judges policies as sites have them. What a network makes of those that `rayctl render --networkpolicy` prints is seen in TestNetworkPolicies of
// package kuberay.
func TestNetwork(t *testing.T) {
	s, err := spec.Decode(strings.NewReader(grows), "rayctl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := objects.NewPlan(spec.For(s, kuberayspec.Name), "ns", "ann@laptop", admit.All())
	if err != nil {
		t.Fatal(err)
	}
	flows, err := flowsOf(p)
	if err != nil {
		t.Fatal(err)
	}
	const (
		deny   = "{metadata: {name: deny}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}"
		within = "{metadata: {name: within}, spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {}}]}], egress: [{to: [{podSelector: {}}]}]}}"
		dns    = "{metadata: {name: dns}, spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: 53, protocol: UDP}]}]}}"
		server = "{metadata: {name: api}, spec: {podSelector: {matchLabels: {ray.io/node-type: head}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{port: 6443}]}]}}"
		watch  = "{metadata: {name: watch}, spec: {podSelector: {matchLabels: {rayctl.io/role: keeper}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{port: 6443}]}]}}"
	)
	for _, c := range []struct {
		name     string
		policies []string
		missing  []string // part of each sentence, in order; of the first ones where there are more
		all      bool
	}{
		{"none", nil, nil, true},
		{"everything denied", []string{deny}, []string{
			"egress of the head is denied by policy deny, and no rule allows it to group w, TCP port 10002", "ingress of group w is denied by policy deny, and no rule allows it from the head",
			"egress of group w is denied by policy deny, and no rule allows it to the head, TCP port 6379 (of the GCS)",
		}, false},
		{"names and API server", []string{deny, within}, []string{
			"egress of the head is denied by policies deny and within, and no rule allows it to the name service, UDP port 53 (of DNS)", "egress of group w is denied by policies deny and within, and no rule allows it to the name service",
			"egress of the keeper", "egress of the record", "egress of the head is denied by policies deny and within, and no rule allows it to the API server, TCP port 6443 (of its autoscaler's requests)",
			"egress of the keeper is denied by policies deny and within, and no rule allows it to the API server, TCP port 6443 (of its watch of nodes)",
		}, true},
		{"all allowed", []string{deny, within, dns, server, watch}, nil, true},
		{"by a label of the file, which the keeper's pods do not have", []string{deny, dns, server, watch, strings.ReplaceAll(within, "podSelector: {}", "podSelector: {matchLabels: {team: rl}}")}, []string{
			"egress of the keeper is denied by policies deny and dns and watch, and no rule allows it to the head, TCP port 8265 (of the dashboard)", "ingress of the head is denied by policies deny and within, and no rule allows it from the keeper",
			"egress of the record is denied by policies deny and dns, and no rule allows it to the keeper, TCP port 8476 (of the keeper)", "ingress of the keeper is denied by policy deny",
			"egress of group w is denied by policies deny and dns and within, and no rule allows it to the keeper, TCP port 8476 (of the keeper)", "ingress of the keeper is denied by policy deny, and no rule allows it from group w",
		}, true},
		{"ports that are too few", []string{strings.Replace(within, "{from: [{podSelector: {}}]}", "{from: [{podSelector: {}}], ports: [{port: 6379, endPort: 19999}]}", 1), dns, server, watch}, []string{
			"ingress of group w is denied by policy within, and no rule allows it from the head, TCP port 40000 (one of those that the kernel chooses)",
			"ingress of the head is denied by policy within, and no rule allows it from group w, TCP port 40000", "ingress of group w is denied by policy within, and no rule allows it from group w, TCP port 40000",
		}, true},
		{"another namespace's pods", []string{strings.Replace(within, "{from: [{podSelector: {}}]}", "{from: [{namespaceSelector: {matchLabels: {other: one}}}]}", 1), dns, server}, []string{"ingress of group w is denied by policy within"}, false},
	} {
		j := judge{namespace: map[string]string{"kubernetes.io/metadata.name": "ns"}}
		for _, text := range c.policies {
			var policy networkingv1.NetworkPolicy
			if err := kyaml.UnmarshalStrict([]byte(text), &policy); err != nil {
				t.Fatal(err)
			}
			j.policies = append(j.policies, policy)
		}
		got := j.missing(flows)
		if c.all && len(got) != len(c.missing) {
			t.Errorf("%s: %d are missing, want %d:\n%s", c.name, len(got), len(c.missing), strings.Join(got, "\n"))
			continue
		}
		for i, want := range c.missing {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %s\nwant %q", c.name, got[i], want)
			}
		}
	}
	var rendered judge
	for _, policy := range objects.NetworkPolicies("ns") {
		rendered.policies = append(rendered.policies, *policy)
	}
	if got := rendered.missing(flows); len(got) > 0 {
		t.Errorf("with what is rendered: %s", strings.Join(got, "\n"))
	}
}
