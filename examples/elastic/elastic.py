"""Three tasks of ten seconds on a cluster with one node for them, which gets two more and gives them back."""

import time

import ray

ray.init(log_to_driver=False)


def nodes():
    return sum(node["Alive"] for node in ray.nodes())


@ray.remote(num_cpus=1)
def work():
    time.sleep(10)
    return ray.get_runtime_context().get_node_id()


start = nodes()
print("nodes at the start:", start, flush=True)
print("nodes that did the work:", len(set(ray.get([work.remote() for _ in range(3)]))), flush=True)
while nodes() > start:
    time.sleep(0.5)
print("nodes at the end:", nodes(), flush=True)
