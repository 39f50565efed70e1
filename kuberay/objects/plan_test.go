package objects

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
)

func TestChooseScheduler(t *testing.T) {
	gpus := strings.Replace(smallFile, "job:", "workers: [{name: a, replicas: 2, gpus: 1}]\njob:", 1)
	for _, c := range []struct {
		name, file     string
		volcano, kueue bool
		want           string // scheduler, or part of the error
	}{
		{"served", gpus, true, false, "volcano"},
		{"a GPU gang without gang scheduling", gpus, false, false, "set gang: false"},
		{"no gang wanted", gpus + "gang: false\n", false, false, "none"},
		{"no gang wanted, served", gpus + "gang: false\n", true, false, "none"},
		{"one pod", smallFile, false, false, "none"},
		{"wanted but not there", smallFile + "kuberay: {scheduler: volcano}\n", false, false, "does not serve Volcano"},
		{"under Kueue", gpus, true, true, "none"},
		{"under Kueue, not served", gpus, false, true, "none"},
		{"under Kueue, wanted", gpus + "kuberay: {scheduler: volcano}\n", true, true, "leave out kuberay.scheduler"},
		{"not wanted", smallFile + "kuberay: {scheduler: none}\n", true, false, "none"},
	} {
		var by admit.Info
		if c.kueue {
			by = kueue
		}
		s, err := admit.Choose(spec.For(decode(t, c.file), kuberayspec.Name), gangs(c.volcano), by)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s.Info().Name
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestImagesRay: where nothing says which Ray the image has, the cluster is made for a recent one, and the keeper is told to refuse an older one.
func TestImagesRay(t *testing.T) {
	for name, c := range map[string]struct{ file, version, least string }{
		"no tag":          {strings.Replace(smallFile, "rayproject/ray:2.60.0", "me/train:v5", 1), leastOfImage, leastOfImage},
		"another's tag":   {strings.Replace(smallFile, "rayproject/ray:2.60.0", "verlai/verl:0.9.1", 1), leastOfImage, leastOfImage},
		"the image's tag": {smallFile, "2.60.0", ""},
		"the file":        {strings.Replace(smallFile, "rayproject/ray:2.60.0", "me/train:v5", 1) + "ray: {version: 2.55.1}\n", "2.55.1", ""},
	} {
		p := planOf(t, c.file, true)
		rc, err := p.RayCluster()
		if err != nil {
			t.Fatal(err)
		}
		if rc.Spec.RayVersion != c.version || rc.Spec.AuthOptions == nil || rayContainer(&rc.Spec.HeadGroupSpec.Template).ReadinessProbe == nil || p.Orders().Ray.Least != c.least {
			t.Errorf("%s: made for Ray %s, token %v, least %q", name, rc.Spec.RayVersion, rc.Spec.AuthOptions, p.Orders().Ray.Least)
		}
	}
}

// TestOldRay: a cluster of a Ray without tokens has none, and Ray is started without authentication.
func TestOldRay(t *testing.T) {
	rc, err := planOf(t, strings.Replace(smallFile, "2.60.0", "2.40.0", 1), true).RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	if rc.Spec.AuthOptions != nil || rayContainer(&rc.Spec.HeadGroupSpec.Template).ReadinessProbe != nil {
		t.Error("Ray 2.40 has neither token nor the health path")
	}
}

// TestSuspendedRayClusterIsRefused: a RayCluster of which KubeRay would make nothing is refused before anything is created.
func TestSuspendedRayClusterIsRefused(t *testing.T) {
	const rayCluster = "name: x\nlauncher: kuberay\nkuberay: {rayCluster: {%s rayVersion: 2.60.0, headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'rayproject/ray:2.60.0'}]}}}}}\n"
	for text, want := range map[string]string{
		fmt.Sprintf(rayCluster, "suspend: true,"):                        "suspend: true keeps KubeRay from making its pods",
		smallFile + "kuberay: {patch: {spec: {suspend: true}}}\n":        "suspend: true keeps KubeRay from making its pods",
		fmt.Sprintf(rayCluster, "managedBy: kueue.x-k8s.io/multikueue,"): "managedBy: kueue.x-k8s.io/multikueue keeps the KubeRay operator",
		fmt.Sprintf(rayCluster, "managedBy: ray.io/kuberay-operator,"):   "",
		fmt.Sprintf(rayCluster, "suspend: false,"):                       "",
	} {
		_, err := NewPlan(spec.For(decode(t, text), kuberayspec.Name), "rl", "ann@laptop", gangs(false))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
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
