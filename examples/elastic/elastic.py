"""Three tasks, each on a node of its own, on a cluster with one node for them, which gets two more and gives them back."""

import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(log_to_driver=False)


def nodes():
    return sum(node["Alive"] for node in ray.nodes())


@ray.remote(num_cpus=1)
def work():
    return ray.get_runtime_context().get_node_id()


start = nodes()
print("nodes at the start:", start, flush=True)
places = placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")  # this waits for two more nodes
tasks = [work.options(scheduling_strategy=PlacementGroupSchedulingStrategy(places, placement_group_bundle_index=i)).remote() for i in range(3)]
print("nodes that did the work:", len(set(ray.get(tasks))), flush=True)
remove_placement_group(places)
while nodes() > start:
    time.sleep(0.5)
print("nodes at the end:", nodes(), flush=True)
