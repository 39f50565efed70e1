package objects

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
	safeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// TestStaying: autoscalers leave the pods of a gang alone, also of a RayCluster that is taken as it is, unless the file sets the annotation itself.
func TestStaying(t *testing.T) {
	adopted := "name: small\nlauncher: kuberay\nkuberay: {rayCluster: {rayVersion: 2.60.0, headGroupSpec: {rayStartParams: {}, template: {%s" +
		"spec: {containers: [{name: ray, image: rayproject/ray:2.60.0}]}}}}}\njob: {entrypoint: python train.py}\n"
	for name, test := range map[string]struct{ file, disrupt, evict string }{
		"gang":              {smallFile, "true", "false"},
		"no gang":           {smallFile + "gang: false\n", "", ""},
		"own annotation":    {smallFile + "kuberay: {annotations: {" + doNotDisrupt + ": \"false\"}}\n", "false", "false"},
		"own patch":         {smallFile + "head: {patch: {metadata: {annotations: {" + safeToEvict + ": null}}}}\n", "true", ""},
		"taken as it is":    {fmt.Sprintf(adopted, ""), "true", "false"},
		"taken with own":    {fmt.Sprintf(adopted, "metadata: {annotations: {"+safeToEvict+": \"true\"}}, "), "true", "true"},
		"another of theirs": {smallFile + "kuberay: {annotations: {team: rl}}\n", "true", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			rc, err := planOf(t, test.file, false).RayCluster()
			if err != nil {
				t.Fatal(err)
			}
			got := rc.Spec.HeadGroupSpec.Template.Annotations
			if got[doNotDisrupt] != test.disrupt || got[safeToEvict] != test.evict {
				t.Errorf("%v, want %q and %q", got, test.disrupt, test.evict)
			}
		})
	}
}

// TestHelperPods: keeper and record have what the file gives all pods, and limits that are at most twice their requests.
func TestHelperPods(t *testing.T) {
	p := planOf(t, smallFile+"kuberay: {priorityClassName: high, annotations: {team: rl}, nodeSelector: {a: b}}\n", false)
	for _, pod := range []corev1.PodTemplateSpec{p.KeeperJob().Spec.Template, p.RecordJob().Spec.Template} {
		if pod.Annotations["team"] != "rl" || pod.Spec.PriorityClassName != "high" || pod.Spec.NodeSelector["a"] != "b" {
			t.Errorf("%s: annotations %v, spec %+v", pod.Labels[LabelRole], pod.Annotations, pod.Spec)
		}
		r := pod.Spec.Containers[0].Resources
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			if request.IsZero() || limit.Cmp(request) < 0 || limit.MilliValue() > 2*request.MilliValue() {
				t.Errorf("%s: %s %s, limit %s", pod.Labels[LabelRole], name, request.String(), limit.String())
			}
		}
	}
}

// TestKeeperIsBound: the keeper's Job has a deadline for every cluster file.
func TestKeeperIsBound(t *testing.T) {
	for lifetime, want := range map[string]time.Duration{
		"{queue: 1h, max: 2h}": 3*time.Hour + AfterMax(planOf(t, smallFile, false).Spec), "{max: 2h}": Longest, "{queue: unlimited, max: unlimited}": Longest, "{}": Longest,
	} {
		job := planOf(t, smallFile+"lifetime: "+lifetime+"\n", false).KeeperJob()
		if got := ptr.Deref(job.Spec.ActiveDeadlineSeconds, 0); got != int64(want.Seconds()) {
			t.Errorf("lifetime %s: %d seconds, want %s", lifetime, got, want)
		}
	}
}
