package objects

import (
	"fmt"
	"testing"
)

const (
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
	safeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// TestAutoscalersLeaveGangPods: autoscalers leave the pods of a gang alone, also of a RayCluster that is taken as it is, unless the file sets the annotation itself.
func TestAutoscalersLeaveGangPods(t *testing.T) {
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
