package objects

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestHeadTellsWhatWaits: a head tells a keeper in a pod what waits for resources that no node can have. That of an elastic cluster knows the groups from the file, with the memory of
// their nodes; another one looks at its nodes. Other pods never do.
func TestHeadTellsWhatWaits(t *testing.T) {
	const elastic = "workers: [{name: w, minReplicas: 0, maxReplicas: 4, cpus: 0.5, memory: 2Gi}, {name: fixed, replicas: 2}]\n"
	for text, want := range map[string]string{
		elastic:                               `{"groups":{"fixed":{"CPU":1,"GPU":0},"head":{},"w":{"CPU":1,"GPU":0,"memory":2147483648}},"keeper":"http://small-keeper.rl.svc:8476","most":7}`,
		elastic + "kuberay: {keeper: none}\n": "",
		elastic + "ray: {version: 2.49.0}\n":  "",
		"workers: [{name: w, replicas: 2}]\n": `{"groups":{},"keeper":"http://small-keeper.rl.svc:8476","most":0}`,
		"workers: [{name: w, replicas: 2}]\nray: {version: 2.49.0}\n": "",
	} {
		rc, err := planOf(t, smallFile+text, true).RayCluster()
		if err != nil {
			t.Fatal(err)
		}
		if got := waitingOf(&rc.Spec.HeadGroupSpec.Template); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if got := waitingOf(&rc.Spec.WorkerGroupSpecs[0].Template); got != "" {
			t.Errorf("%q: a worker has %s", text, got)
		}
	}
}

func waitingOf(t *corev1.PodTemplateSpec) string {
	for _, e := range rayContainer(t).Env {
		if e.Name == "RAYCTL_WAITING" {
			return e.Value
		}
	}
	return ""
}

// TestInterfaces: only pods in the network of the host are told their address, by which node.sh finds the interface for torch.distributed. What the file says
// reaches all pods, and where it says nothing, they have neither variable.
func TestInterfaces(t *testing.T) {
	const groups = "workers: [{name: a, replicas: 2}, {name: b, replicas: 2, patch: {spec: {hostNetwork: true}}}]\n"
	for text, want := range map[string][3]string{
		groups: {"", "", "status.podIP"},
		groups + "env: {NCCL_SOCKET_IFNAME: net1, GLOO_SOCKET_IFNAME: net1}\n":                                                                       {"net1 net1", "net1 net1", "net1 net1 status.podIP"},
		groups + "kuberay: {patch: {spec: {headGroupSpec: {template: {spec: {hostNetwork: true}}}}}}\n":                                              {"status.podIP", "", "status.podIP"},
		groups + "head: {patch: {spec: {hostNetwork: true}}}\n":                                                                                      {"status.podIP", "", "status.podIP"},
		groups + "head: {patch: {spec: {hostNetwork: true}}}\nkuberay: {patch: {spec: {headGroupSpec: {template: {spec: {hostNetwork: false}}}}}}\n": {"", "", "status.podIP"},
	} {
		rc, err := planOf(t, smallFile+text, true).RayCluster()
		if err != nil {
			t.Fatal(err)
		}
		var got [3]string
		for i, template := range []*corev1.PodTemplateSpec{&rc.Spec.HeadGroupSpec.Template, &rc.Spec.WorkerGroupSpecs[0].Template, &rc.Spec.WorkerGroupSpecs[1].Template} {
			var found []string
			for _, e := range rayContainer(template).Env {
				switch {
				case strings.HasSuffix(e.Name, "_SOCKET_IFNAME"):
					found = append(found, e.Value)
				case e.Name == "RAYCTL_HOST_NETWORK_IP":
					found = append(found, e.ValueFrom.FieldRef.FieldPath)
				}
			}
			got[i] = strings.Join(found, " ")
			if template.Spec.HostNetwork != (template.Spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet) {
				t.Errorf("%s: template %d finds names by %q", text, i, template.Spec.DNSPolicy)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
