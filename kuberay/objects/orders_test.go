package objects

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestGroupsOfTheKeeper: its orders have each group by name, also a group whose minimum is 0 nodes.
func TestGroupsOfTheKeeper(t *testing.T) {
	groups := planOf(t, smallFile+"workers: [{name: elastic, minReplicas: 0, replicas: 2, maxReplicas: 4, gpus: 1}, {name: needed, replicas: 2}]\n", true).groups()
	var got []string
	for _, g := range groups {
		got = append(got, fmt.Sprintf("%s %d", g.Name, g.Count))
	}
	if want := []string{"head 1", "elastic 0", "needed 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWorkersReportTheirNodes: workers report to the keeper that they have nodes where these come one by one, and there is a keeper that they reach.
func TestWorkersReportTheirNodes(t *testing.T) {
	const workers = smallFile + "workers: [{name: w, replicas: 2}]\n"
	for _, c := range []struct {
		file    string
		volcano bool
		want    bool
	}{
		{workers, true, false}, {workers, false, true}, {workers + "gang: false\n", true, true}, {workers + "kuberay: {scheduler: none}\n", true, true},
		{workers + "kuberay: {scheduler: none, keeper: none}\n", true, false}, {smallFile, false, false}, // a head alone
	} {
		p := planOf(t, c.file, c.volcano)
		rc, err := p.RayCluster()
		if err != nil {
			t.Fatal(err)
		}
		tells := func(template *corev1.PodTemplateSpec) bool {
			has := func(name, value string) bool {
				return slices.ContainsFunc(rayContainer(template).Env, func(e corev1.EnvVar) bool { return e.Name == name && (value == "" || e.Value == value) })
			}
			return has("RAYCTL_TELL_GROUP", "w") && has("RAYCTL_KEEPER", "") && has("RAYCTL_KEEPER_TOKEN", "")
		}
		if tells(&rc.Spec.HeadGroupSpec.Template) {
			t.Errorf("%q: the head tells, of which that is known", c.file)
		}
		if got := len(rc.Spec.WorkerGroupSpecs) > 0 && tells(&rc.Spec.WorkerGroupSpecs[0].Template); got != c.want || p.Orders().Start.Placed != c.want {
			t.Errorf("%q: the workers tell: %v, the keeper awaits it: %v, want %v", c.file, got, p.Orders().Start.Placed, c.want)
		}
	}
}
