"""Ray's side: the node provider that Ray's autoscaler (autoscaler/v2, in the process `monitor` on the head) loads. It asks the keeper for everything.

Autoscaler v2 takes a NodeProvider of v1 through NodeProviderAdapter (Ray 2.60, autoscaler/v2/instance_manager/node_provider.py): it calls the functions below
and no others, and finds out which node of Ray's is which of ours by RAY_CLOUD_INSTANCE_ID in the environment of `ray start`."""

import collections
import inspect
import json
import logging
import os
import sys
import time
import urllib.error
import urllib.request

from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import (NODE_KIND_HEAD, NODE_KIND_WORKER, STATUS_UP_TO_DATE, TAG_RAY_LAUNCH_REQUEST, TAG_RAY_NODE_KIND, TAG_RAY_NODE_STATUS,
                                 TAG_RAY_USER_NODE_TYPE)

from rayctl_keeper.rayhook import demand

TIMEOUT = 10.0  # seconds
DEMAND = 4.0  # seconds between looks at what cannot be satisfied
PACE = "AUTOSCALER_UPDATE_INTERVAL_S"  # Ray's seconds between looks at everything: whole ones where they are a variable of the environment
FAST_PACE = 0.5
WARN_EVERY = 30.0  # seconds
logger = logging.getLogger(__name__)
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the keeper is on this host


def quicken(loop):
    """Lets Ray's autoscaler look twice a second: a node that nothing uses is there for two looks more. loop is the program that is run, autoscaler/v2/monitor.py
    (Ray 2.60)."""
    if hasattr(loop, PACE):
        setattr(loop, PACE, FAST_PACE)


def keep_queued(provider):
    """Ray's autoscaler asks only for nodes that it may have now; the others stay QUEUED there, which it ends itself when nothing needs them any more. Nodes that it asks for
    and that are refused it asks for again at each look, each time with "Adding 1 node(s)" in the driver's output (Ray 2.60, _compute_to_launch)."""
    from ray.autoscaler.v2.instance_manager.reconciler import Reconciler
    original = getattr(Reconciler, "_compute_to_launch", None)
    if original is None or getattr(original, "of_rayctl", False):
        return

    def compute_to_launch(queued_instances, *rest):
        return provider.within_room(original(queued_instances, *rest), queued_instances)

    compute_to_launch.of_rayctl = True
    Reconciler._compute_to_launch = staticmethod(compute_to_launch)


def warn_seldom():
    """Ray's autoscaler warns at each look of requests that no node can take now, also of those that only wait because a group has its maximum of nodes: in the driver's
    output twice a second (Ray 2.60, autoscaler/v2/event_logger.py, "Rate limit the events if too spammy")."""
    from ray.autoscaler.v2.event_logger import AutoscalerEventLogger
    original = getattr(AutoscalerEventLogger, "log_cluster_scheduling_update", None)
    if original is None or getattr(original, "of_rayctl", False):
        return
    signature, warned = inspect.signature(original), [-WARN_EVERY]

    def log(*args, **kwargs):
        call = signature.bind(*args, **kwargs)
        found = [name for name, value in call.arguments.items() if name.startswith("infeasible") and value]
        if found and time.monotonic() < warned[0] + WARN_EVERY:
            call.arguments.update(dict.fromkeys(found))
        elif found:
            warned[0] = time.monotonic()
        return original(*call.args, **call.kwargs)

    log.of_rayctl = True
    AutoscalerEventLogger.log_cluster_scheduling_update = log


class KeeperNodes(NodeProvider):
    """The nodes that the keeper has."""

    def __init__(self, provider_config, cluster_name):
        super().__init__(provider_config, cluster_name)
        self._run_dir, self._config, self._nodes = provider_config["run_dir"], provider_config["file"], {}
        self._gcs, self._drained, self._unmet, self._looked = None, set(), [], 0.0
        self._room, self._held, self._held_told = {}, {}, {}  # by type: how many may be asked for, how many are kept, and of how many the keeper knows

    def _ask(self, body=None):
        """The keeper's answer, after what is asked for was done."""
        with open(os.path.join(self._run_dir, "state.json")) as f:
            state = json.load(f)
        url = state["keeper"]["url"]
        if state["head"]["fastStart"]:  # which the keeper knows when the head has answered
            quicken(sys.modules["__main__"])
            keep_queued(self)
            warn_seldom()
        with open(os.path.join(self._run_dir, "token")) as f:
            token = f.read().strip()
        request = urllib.request.Request(url + "/v1/nodes", None if body is None else json.dumps(body).encode(),
                                         {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
        try:
            with direct.open(request, timeout=TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError("the keeper: " + error.read(2000).decode("utf-8", "replace")) from None

    def non_terminated_nodes(self, tag_filters):
        answer = self._ask()
        self._nodes, self._room = {n["id"]: n for n in answer["nodes"]}, answer["room"]  # only here: requests are made in other threads, and their answers may be older
        for work in (self._drain, self._tell_unmet, self._tell_held):
            try:
                work()
            except Exception as error:  # the GCS may be busy; the autoscaler's round goes on
                logger.warning("%s: %s", work.__name__, error)
        return list(self._nodes)

    def _client(self):
        """Of the GCS."""
        if self._gcs is None:
            import ray
            with open(os.path.join(self._run_dir, "state.json")) as f:
                address = json.load(f)["head"]["address"]
            if not address:
                raise RuntimeError("the keeper has not heard from this head yet")
            self._gcs = ray._raylet.GcsClient(address=address)
        return self._gcs

    def _drain(self):
        """Nodes that are going to be taken away: the call of `ray drain-node`, as in run/end/drain.py."""
        from ray.core.generated import autoscaler_pb2
        reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        for node in self._nodes.values():
            if node["drain"] and node["nodeId"] not in self._drained:
                accepted, why = self._client().drain_node(node["nodeId"], reason, "rayctl: its job is going to end", int(node["drain"] * 1000))
                logger.info("drain of %s: %s %s", node["id"], accepted, why)
                if accepted:
                    self._drained.add(node["nodeId"])

    def _tell_unmet(self):
        """The keeper shows what waits for nodes that no group has."""
        if time.monotonic() < self._looked + DEMAND:
            return
        self._looked = time.monotonic()
        with open(self._config) as f:
            config = json.load(f)
        types = {t["labels"]["rayctl.io/group"]: t["resources"] for name, t in config["available_node_types"].items() if t["max_workers"] or name == config["head_node_type"]}
        found = demand.unmet(self._client().get_cluster_status(), types, 1 + config["max_workers"])
        if found != self._unmet:
            self._ask({"unmet": found})
            self._unmet = found

    def within_room(self, launches, queued):
        """Of what the autoscaler would ask for now, lists of instances by type, what it may."""
        allowed = {kind: instances[:self._room.get(kind, len(instances))] for kind, instances in launches.items()}
        waiting = collections.Counter(instance.instance_type for instance in queued)
        self._held = {kind: count - len(allowed.get(kind, ())) for kind, count in waiting.items() if kind in self._room and count > len(allowed.get(kind, ()))}
        return {kind: instances for kind, instances in allowed.items() if instances}

    def _tell_held(self):
        """The keeper shows what scaling.maxAllocations keeps from starting."""
        held, self._held = self._held, {}  # without a queued instance the autoscaler computes nothing
        if held != self._held_told:
            self._ask({"held": held})
            self._held_told = held

    def is_running(self, node_id):
        return bool(self._nodes.get(node_id, {}).get("running"))

    def is_terminated(self, node_id):
        return node_id not in self._nodes

    def node_tags(self, node_id):
        node = self._nodes.get(node_id)
        return {} if node is None else {
            TAG_RAY_NODE_KIND: NODE_KIND_HEAD if node["head"] else NODE_KIND_WORKER, TAG_RAY_USER_NODE_TYPE: node["type"],
            TAG_RAY_NODE_STATUS: STATUS_UP_TO_DATE, TAG_RAY_LAUNCH_REQUEST: node["request"]}

    def internal_ip(self, node_id):
        return self._nodes.get(node_id, {}).get("address", "")

    def external_ip(self, node_id):
        return self.internal_ip(node_id)

    def create_node(self, node_config, tags, count):
        self._ask({"launch": {"type": tags[TAG_RAY_USER_NODE_TYPE], "count": count, "request": tags.get(TAG_RAY_LAUNCH_REQUEST, "")}})

    def create_node_with_resources_and_labels(self, node_config, tags, count, resources, labels):
        self.create_node(node_config, tags, count)

    def terminate_node(self, node_id):
        self.terminate_nodes([node_id])

    def terminate_nodes(self, node_ids):
        self._ask({"release": list(node_ids)})
