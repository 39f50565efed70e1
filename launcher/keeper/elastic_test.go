package keeper_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// elastic is a cluster of a head without CPUs, one worker, and up to two more.
func elastic(o *keeper.Orders) {
	o.Groups[0].CPUs = ptr(0.0)
	o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, Max: 3, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6))})
	o.Scaling = &keeper.Scaling{Idle: 5, UpscalingSpeed: 1}
}

// TestElastic: nodes come when tasks wait for them, and go when nothing needs them; the one that must be there stays.
func TestElastic(t *testing.T) {
	r := newRig(t, `python -c '
import ray, time
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1)
def where(): time.sleep(8); return ray.get_runtime_context().get_node_id()
begin = time.time()
print("on", len(set(ray.get([where.remote() for _ in range(3)]))), "nodes", flush=True)
print("took", time.time() - begin, flush=True)
def alive(): return sum(n["Alive"] for n in ray.nodes())
print("alive", alive(), flush=True)
while alive() > 2: time.sleep(0.2)
print("after", time.time() - begin, flush=True)
'`, elastic).start(nil)
	r.commit(keeper.Commit{})
	s := r.result()
	t.Logf("%s", r.story())
	t.Logf("%+v", s.Exit)
	for _, e := range s.Timeline {
		t.Logf("%+v", e)
	}
	t.Logf("%s", r.log())
}
