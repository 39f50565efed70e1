"""Counts the Ray nodes of each group, and leaves the answer where the run's results go, if there is such a place."""

import collections
import json
import os
import pathlib

import ray

ray.init()
groups = collections.Counter(node["Labels"].get("ray.io/node-group", "?") for node in ray.nodes() if node["Alive"])
for name, count in sorted(groups.items()):
    print("%d in %s" % (count, name))
print("GPUs: %d" % ray.cluster_resources().get("GPU", 0))

if os.environ.get("RAYCTL_OUTPUT_DIR"):
    results = pathlib.Path(os.environ["RAYCTL_OUTPUT_DIR"])
    results.mkdir(parents=True, exist_ok=True)
    (results / "groups.json").write_text(json.dumps(groups))
