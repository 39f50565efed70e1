"""Squares on all workers of the cluster that rayctl made."""

import ray

ray.init()


@ray.remote
def square(x):
    return x * x, ray.get_runtime_context().get_node_id()[:8]


results = ray.get([square.remote(x) for x in range(100)])
print("sum of squares:", sum(value for value, _ in results))
print("nodes:", ", ".join(sorted({node for _, node in results})))
