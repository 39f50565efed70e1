package kubetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// EnforceNetworkPolicies enforces the NetworkPolicies of a namespace until the test's end. The testbed's network (CNI's plug-in bridge) does not enforce them.
// It writes nftables rules into each pod's network namespace, and writes them anew when pods or policies change. As usual networks do, it always allows
// connections from the pod's own node, replies on allowed connections, and connections of a pod to itself. Of peers it supports podSelector and ipBlock, of ports
// only numbers. A new pod has no rules for the first 0.1 s or so.
func (c *Cluster) EnforceNetworkPolicies(t testing.TB, namespace string) {
	t.Helper()
	nft, err := build.NFT(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := &enforcer{c: c, namespace: namespace, nft: nft, applied: map[types.UID]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if err := e.update(ctx); err != nil && ctx.Err() == nil {
				t.Log(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

type enforcer struct {
	c         *Cluster
	namespace string
	nft       []string
	pids      map[types.UID]string // by pod: the process of its sandbox
	applied   map[types.UID]string // by pod: the rules that its network namespace has
}

// update writes the rules of the pods whose rules have changed.
func (e *enforcer) update(ctx context.Context) error {
	pods, err := e.c.Core.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	policies, err := e.c.Core.NetworkingV1().NetworkPolicies(e.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	searched := false
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.HostNetwork || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if e.pids[p.UID] == "" && !searched {
			e.pids, searched = sandboxes(), true
		}
		rules := e.rules(p, pods.Items, policies.Items)
		if e.pids[p.UID] == "" || e.applied[p.UID] == rules {
			continue
		}
		cmd := exec.CommandContext(ctx, "nsenter", slices.Concat([]string{"--net=/proc/" + e.pids[p.UID] + "/ns/net"}, e.nft, []string{"-f", "-"})...)
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			if _, gone := os.Stat("/proc/" + e.pids[p.UID]); gone != nil {
				delete(e.pids, p.UID) // the sandbox was replaced
				continue
			}
			return fmt.Errorf("the rules of pod %s: %w: %s\n%s", p.Name, err, out, rules)
		}
		e.applied[p.UID] = rules
	}
	return nil
}

// podOfGroup finds a pod's UID in the path of a cgroup.
var podOfGroup = regexp.MustCompile(`/pod([0-9a-f-]{36})`)

// sandboxes finds the process of each pod's sandbox on this machine. It takes only processes that run the pause program: before that, the process may still be in
// the machine's network namespace.
func sandboxes() map[types.UID]string {
	out := map[types.UID]string{}
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, group := range groups {
		text, err := os.ReadFile(group)
		m := podOfGroup.FindSubmatch(text)
		if err != nil || m == nil {
			continue
		}
		process := filepath.Dir(group)
		if command, err := os.ReadFile(filepath.Join(process, "cmdline")); err == nil && strings.HasPrefix(string(command), "/pause") {
			out[types.UID(m[1])] = filepath.Base(process)
		}
	}
	return out
}

// rules returns the nftables rules of one pod.
func (e *enforcer) rules(p *corev1.Pod, pods []corev1.Pod, policies []networkingv1.NetworkPolicy) string {
	in, out, isolatedIn, isolatedOut := "", "", false, false
	for _, policy := range policies {
		if !matches(&policy.Spec.PodSelector, p) {
			continue
		}
		if slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			isolatedIn = true
			for _, r := range policy.Spec.Ingress {
				in += accept("saddr", r.From, r.Ports, pods)
			}
		}
		if slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			isolatedOut = true
			for _, r := range policy.Spec.Egress {
				out += accept("daddr", r.To, r.Ports, pods)
			}
		}
	}
	const table = "table inet rayctl_test"
	text := table + "\ndelete " + table + "\n" + table + " {\n"
	if isolatedIn {
		text += "chain in {\ntype filter hook input priority 0; policy drop;\niifname lo accept\nct state established,related accept\nip saddr " + e.c.NodeIP() + " accept\n" + in + "}\n"
	}
	if isolatedOut {
		text += "chain out {\ntype filter hook output priority 0; policy drop;\noifname lo accept\nct state established,related accept\n" + out + "}\n"
	}
	return text + "}\n"
}

// accept returns the nftables lines for one rule of a policy: a line for each pair of a peer and a port.
func accept(side string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, pods []corev1.Pod) (text string) {
	var who, where []string
	for _, peer := range peers {
		switch {
		case peer.IPBlock != nil:
			who = append(who, "ip "+side+" "+peer.IPBlock.CIDR+" ")
		case peer.NamespaceSelector != nil:
			panic("the testbed's enforcement knows no namespaces")
		default:
			for i := range pods {
				if pods[i].Status.PodIP != "" && matches(peer.PodSelector, &pods[i]) {
					who = append(who, "ip "+side+" "+pods[i].Status.PodIP+" ")
				}
			}
		}
	}
	if len(peers) == 0 {
		who = []string{""}
	}
	for _, port := range ports {
		where = append(where, fmt.Sprintf("%s dport %d-%d ", strings.ToLower(string(*port.Protocol)), port.Port.IntVal, ptr.Deref(port.EndPort, port.Port.IntVal)))
	}
	if len(ports) == 0 {
		where = []string{""}
	}
	slices.Sort(who)
	for _, w := range who {
		for _, at := range where {
			text += w + at + "accept\n"
		}
	}
	return text
}

func matches(s *metav1.LabelSelector, p *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(p.Labels))
}
