package conformance

import (
	"regexp"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// grown is what the driver prints. Ray may say in between that nothing can satisfy the placement group yet.
var grown = regexp.MustCompile(`(?s)1 at the start\n.*3 at work\n.*1 at the end\n\z`)

// elasticGroup checks that nodes come while tasks wait for them, that those go which nothing uses any more, and that the one that must be there stays.
func elasticGroup(t *testing.T, s *suite) {
	sp := s.named(t, s.TwoGroups(), python(`import ray, time
ray.init(log_to_driver=False, logging_level="ERROR")
def nodes(): return len({n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("b")})
print(nodes(), "at the start", flush=True)
group = ray.util.placement_group([{"b": 1}] * 3, strategy="STRICT_SPREAD")
ray.get(group.ready())
print(nodes(), "at work", flush=True)
ray.util.remove_placement_group(group)
while nodes() > 1: time.sleep(0.2)
print(nodes(), "at the end", flush=True)`))
	b := &sp.Workers[1]
	least, most := 1, 3
	b.Replicas, b.MinReplicas, b.MaxReplicas = &least, &least, &most
	sp.Scaling.Idle = units.Limit(5 * time.Second)
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	if !grown.MatchString(out) {
		t.Errorf("output %q, want %s", out, grown)
	}
	if u := oc.Receipt.Usage; u.Nodes != 4 {
		t.Errorf("the receipt counts %d nodes at a time, not head, one worker, and two more", u.Nodes)
	}
}
