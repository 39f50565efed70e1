"""Prints when one actor first ran."""
import time

import ray

ray.init(logging_level="ERROR")


@ray.remote(num_cpus=1)
class Actor:
    def now(self):
        return time.time()


print("up", ray.get(Actor.remote().now.remote()), flush=True)
