package kuberay_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	kbed "github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/pace"
)

// TestNoImage: a start that cannot succeed ends with one sentence, and nothing stays allocated.
func TestNoImage(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("noimage", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperImage: "rayproject/ray:2.60.0"})
	s.Image = "registry.invalid/nosuch:2.60.0"
	r := b.begin(t, b.l, s)
	if e := r.wantEnd(t, "start-failed", runstate.CodeStartFailed, ""); !strings.Contains(e.Message, "registry.invalid/nosuch:2.60.0") {
		t.Errorf("exit %+v", e)
	}
}

// TestImagesRay: without ray.version and with an image whose name does not show it, the image's Ray runs, with a token.
func TestImagesRay(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("imagesray", `python -c 'import ray; print("Ray", ray.__version__)'`)
	s.Ray.Version, s.Image = "", kbed.UnnamedRay
	r := b.begin(t, b.l, s)
	r.wantEnd(t, "succeeded", 0, "Ray 2.60.0\n")
	if head := r.status.Head; head.RayVersion != "2.60.0" || !head.Token {
		t.Errorf("head %+v", head)
	}
}

// TestNoKeeperImage: the launch itself fails where not even the keeper can start.
func TestNoKeeperImage(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	for image, want := range map[string]string{
		"registry.invalid/NoSuch:2.60.0": "registry.invalid/NoSuch:2.60.0", // capitals make it invalid; what may be pulled later is given a minute
		"rayctl.test/pause:1":            "python3 cannot be started in image rayctl.test/pause:1",
	} {
		s := named("nokeeper", "echo never")
		s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperImage: image})
		_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), want) {
			t.Errorf("code %d: %v", launcher.ExitCode(err), err)
		}
		b.NothingLeft(t, b.namespace, nil)
	}
}
