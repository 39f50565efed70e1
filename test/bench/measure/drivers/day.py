"""A day with a notebook: bursts of tasks, each of which wants a node of its own, with long rests between. Writes what happened to a file.

Usage: day.py FILE TASKS BURSTS SECONDS_OF_A_TASK PERIOD
"""
import json
import sys
import time

import ray
from ray.util.state import list_nodes

file, tasks, bursts, work, period = sys.argv[1], *map(float, sys.argv[2:])
ray.init(log_to_driver=False, logging_level="ERROR")


@ray.remote(num_cpus=0, resources={"w": 1}, max_retries=-1)
def task(number):
    begun = time.time()
    time.sleep(work)
    return number, begun, time.time()


begin = time.time()
told = {"begin": begin, "bursts": []}
for burst in range(int(bursts)):
    time.sleep(max(0, begin + period * burst + 1 - time.time()))
    wanted = time.time()
    done = ray.get([task.remote(n) for n in range(int(tasks))])
    told["bursts"].append({"wanted": wanted, "begun": [d[1] for d in done], "ended": time.time(), "sum": sum(d[0] for d in done)})
time.sleep(max(0, begin + period * bursts - time.time()))
told["end"] = time.time()
told["joined"] = sorted(n.start_time_ms / 1000 for n in list_nodes(detail=True, limit=1000) if not n.is_head_node)
with open(file, "w") as f:
    json.dump(told, f)
