//go:build matrix

package keeper_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/test/raytest"
)

// TestRayVersions: Ray at the two versions from which rayctl asks it for more: labels, and tokens. Their start is unchanged, as ray.fastStart is by default for them.
func TestRayVersions(t *testing.T) {
	for _, version := range []string{raytest.Ray249, raytest.Ray252} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, `python -c 'import ray; ray.init(); print(ray.__version__, len(ray.nodes()))'; exit 5`, func(o *keeper.Orders) {
				o.Ray.Python, o.Ray.Version, o.Ray.FastStart = raytest.Env(t, version), version, raytest.Ray260
				o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6)), Labels: map[string]string{"a": "b"}})
			}).start(nil)
			r.commit(keeper.Commit{})
			final := r.result()
			if final.Exit.Code != 5 || final.Head.RayVersion != version || final.Head.Token != (version == raytest.Ray252) || final.Head.FastStart {
				t.Errorf("%+v of %+v", final.Exit, final.Head)
			}
			if log := r.log(); !strings.Contains(log, version+" 2\n") {
				t.Errorf("output %q", log)
			}
		})
	}
}
