"""Prints what each Ray node has: its host, its processors, and the GPUs that a task there may use."""

import os
import socket

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
def look():
    """Where this task runs, and what it sees."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return socket.gethostname(), ",".join(sorted(gpus.split(",")))


def main():
    """One task on each node, with all GPUs of the node."""
    ray.init(logging_level="ERROR", log_to_driver=False)
    nodes = sorted((n for n in ray.nodes() if n["Alive"]), key=lambda n: n["NodeName"])
    tasks = [look.options(num_gpus=n["Resources"].get("GPU", 0),
                          scheduling_strategy=NodeAffinitySchedulingStrategy(n["NodeID"], soft=False)).remote() for n in nodes]
    for node, (host, gpus) in zip(nodes, ray.get(tasks)):
        print("%s on %s: %d CPUs, GPUs %s" % (node["NodeName"], host, node["Resources"].get("CPU", 0), gpus or "none"))


if __name__ == "__main__":
    main()
