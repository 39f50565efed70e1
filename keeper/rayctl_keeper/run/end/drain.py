"""Drains Ray's nodes before they are taken away. Programs on them get a warning, for example Ray Train's workers by ray.train.get_preemption_info()."""

import shlex
import time

from rayctl_keeper.ray.dashboard import Refused, Unreachable
from rayctl_keeper.state.document import DRAIN
from rayctl_keeper.state.model import Cause

SHORTEST = 5.0  # seconds of grace; with less, the grace would be over before the driver gets the warning
# The call of `ray drain-node` (ray/scripts/scripts.py, Ray 2.60), for some nodes, or for all with the head last. A draining node that is idle ends at once
# (src/ray/raylet/local_resource_manager.cc). If all nodes are drained, this job keeps the head busy, because the head has the driver's exit code and output.
SCRIPT = """import sys
sys.path.pop(0)
import os, time, ray
from ray.core.generated import autoscaler_pb2
deadline, message, some = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
gcs = ray._raylet.GcsClient(address=os.environ["RAY_ADDRESS"])
nodes = [(info.is_head_node, node.hex()) for node, info in gcs.get_all_node_info().items() if info.state == info.ALIVE]
for _, node in sorted(n for n in nodes if not some or n[1] in some):
    print(node, gcs.drain_node(node, reason, message, deadline), flush=True)
time.sleep(0 if some else 3600)
"""


def warns(end):
    """Returns whether nodes are drained for this end: only if its cause is a limit or a signal, not if a user ended the run."""
    return end.cause in (Cause.MAX, Cause.TOTAL, Cause.TIME_LIMIT, Cause.PREEMPTED, Cause.IDLE_GPU) or end.signalled


def drain(dashboard, prefix, end, grace, log):
    """Submits a job on the head that drains all nodes; returns its submission id, "" if nothing is drained."""
    if not warns(end) or grace < SHORTEST:
        return ""
    now = time.time()
    submission_id = "%s%s%d" % (prefix, DRAIN, now)
    try:
        submit(dashboard, submission_id, now + grace, end.message)
    except (Unreachable, Refused) as error:
        log("draining the nodes: %s" % error)
    return submission_id


def drain_nodes(dashboard, prefix, nodes, deadline, message):
    """Has the head drain the nodes of these ids until a moment in epoch seconds, 0: none is known. Raises Unreachable or Refused."""
    submit(dashboard, "%s%s%s-%d" % (prefix, DRAIN, nodes[0][:12], deadline), deadline, message, nodes)


def submit(dashboard, submission_id, deadline, message, nodes=()):
    """Submits the job that does it."""
    words = ["python", "-c", SCRIPT, str(int(deadline * 1000)), "rayctl: " + message] + list(nodes)
    dashboard.submit({"entrypoint": " ".join(shlex.quote(word) for word in words), "submission_id": submission_id, "runtime_env": {}, "metadata": {}}, timeout=1.0)
