"""Tells Ray that its nodes are going to be taken away: what runs there is warned, such as Ray Train's workers by ray.train.get_preemption_info()."""

import shlex
import time

from rayctl_keeper.ray.dashboard import Refused, Unreachable

SHORTEST = 5.0  # seconds of grace: with less of it a driver has none left when the notice reaches it
# The call of `ray drain-node` (ray/scripts/scripts.py, Ray 2.60), for all nodes, the head last. A draining node that is idle ends at once
# (src/ray/raylet/local_resource_manager.cc); this job keeps the head busy, which still has the driver's exit code and output.
SCRIPT = """import sys
sys.path.pop(0)
import os, time, ray
from ray.core.generated import autoscaler_pb2
deadline, message = int(sys.argv[1]), sys.argv[2]
reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
gcs = ray._raylet.GcsClient(address=os.environ["RAY_ADDRESS"])
nodes = [(info.is_head_node, node.hex()) for node, info in gcs.get_all_node_info().items() if info.state == info.ALIVE]
for _, node in sorted(nodes):
    print(node, gcs.drain_node(node, reason, message, deadline), flush=True)
time.sleep(3600)
"""


def warns(end):
    """Whether nodes are drained for this end: it comes by a limit or from the substrate, not by somebody who wants the run to end."""
    return end.cause in ("max", "total", "time-limit", "preempted", "idle-gpu") or end.signalled


def drain(dashboard, prefix, end, grace, log):
    """Has the head drain all nodes, by a job; returns the job's submission id, "" where nothing is drained."""
    if not warns(end) or grace < SHORTEST:
        return ""
    now = time.time()
    submission_id = "%s-drain-%d" % (prefix, now)
    command = "python -c %s %d %s" % (shlex.quote(SCRIPT), int((now + grace) * 1000), shlex.quote("rayctl: " + end.message))
    try:
        dashboard.submit({"entrypoint": command, "submission_id": submission_id, "runtime_env": {}, "metadata": {}}, timeout=1.0)
    except (Unreachable, Refused) as error:
        log("draining the nodes: %s" % error)
    return submission_id
