"""What waits in Ray for resources that no node can ever have. Run by `go test ./keeper`.

demand_answers.json has what two versions of Ray answered (GetClusterStatus of the GCS, ClusterResourceState), of clusters with two nodes that had one CPU each (2.9.3), or one of them (2.60.0):
while 2,000 tasks waited for their turn, 3,001 more for what no node has, an actor, and placement groups, each with a task in it."""

import json
import os
import sys
import types
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.rayhook import demand
from sample import HOSTILE

STATUSES = {"RUNNING": 1, "DEAD": 2, "IDLE": 3}
A_GPU = "tasks or actors wait for a node with 1 CPU, 1 GPU, and there is none (a node has at most 1 CPU, 0 GPUs)"
WANT = {
    "idle": [], "busy": [], "cancelled": [], "actor": [A_GPU], "tasks": [A_GPU, "tasks or actors wait for a node with 8 CPUs, and there is none (a node has at most 1 CPU)"],
    "pg-STRICT_PACK-2CPU": ["a placement group (STRICT_PACK) waits for a node with 2 CPUs, and there is none (a node has at most 1 CPU)"],
    "pg-STRICT_SPREAD-3CPU": ["a placement group (STRICT_SPREAD) waits for 3 nodes, and the cluster has 2"],
}
IN_ALL = {"2.9.3": "2 CPUs", "2.60.0": "1 CPU"}


class Message:
    """What the parser of protocol buffers gives for a message in JSON."""

    def __init__(self, fields):
        self._fields = fields

    def __getattr__(self, name):
        found = self._fields.get(name, {} if name.endswith(("_resources", "_bundle")) else [])
        if name == "status":
            return STATUSES[found]
        if isinstance(found, list):
            return [Message(each) for each in found]
        return Message(found) if name == "request" else found

    def HasField(self, name):
        return name in self._fields


def waits(nodes, *requests, gang=None, strategy=""):
    """What is found for nodes (resources each) and requests; gang: the bundles of a placement group."""
    apart = {"STRICT_SPREAD": [{"anti_affinity": {"label_name": "g"}}], "STRICT_PACK": [{"affinity": {"label_name": "g"}}]}.get(strategy, [])
    state = {"node_states": [{"status": "IDLE", "total_resources": node} for node in nodes],
             "pending_resource_requests": [{"request": {"resources_bundle": wanted}, "count": 1} for wanted in requests],
             "pending_gang_resource_requests": [{"requests": [{"resources_bundle": wanted, "placement_constraints": apart} for wanted in gang]}] if gang else []}
    return list(demand.beyond_nodes(Message(state)))


class Demand(unittest.TestCase):
    def test_recorded(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "demand_answers.json")) as f:
            recorded = json.load(f)
        for version, in_all in IN_ALL.items():
            want = dict(WANT, **{"pg-PACK-10CPU": ["a placement group waits for 10 CPUs in all, and the nodes have %s" % in_all]})
            self.assertEqual(set(recorded[version]), set(want))
            for name, answer in recorded[version].items():
                self.assertEqual(sorted(demand.beyond_nodes(Message(answer))), want[name], (version, name))

    def test_tasks(self):
        nodes = [{"CPU": 8, "memory": 4 << 30}, {"CPU": 1, "GPU": 1, "rollout": 2}]
        for wanted in ({"CPU": 8}, {"CPU": 1, "GPU": 0.5}, {"rollout": 2}, {}, {"CPU": 0}, {"memory": 4 << 30}):
            self.assertEqual(waits(nodes, wanted), [], wanted)
        self.assertEqual(waits(nodes, {"CPU": 2, "GPU": 1}), ["tasks or actors wait for a node with 2 CPUs, 1 GPU, and there is none (a node has at most 8 CPUs, 1 GPU)"])
        self.assertEqual(waits(nodes, {"memory": 6 << 30, "other": 1}),
                         ["tasks or actors wait for a node with 6 GiB of memory, 1 other, and there is none (a node has at most 4 GiB of memory, 0 other)"])
        self.assertEqual(waits([], {"GPU": 1}), [], "nothing is known of the nodes")
        self.assertLessEqual(len(waits(nodes, {HOSTILE * 99: 1})[0]), demand.LONGEST)

    def test_dead_node(self):
        """A node that is lost gives nothing."""
        state = {"node_states": [{"status": "IDLE", "total_resources": {"CPU": 1}}, {"status": "DEAD", "total_resources": {"CPU": 1, "GPU": 1}}],
                 "pending_resource_requests": [{"request": {"resources_bundle": {"CPU": 1, "GPU": 1}}}]}
        self.assertEqual(list(demand.beyond_nodes(Message(state))), [A_GPU])

    def test_placement_groups(self):
        nodes = [{"CPU": 4}, {"CPU": 4, "GPU": 2}]
        two, gpu = {"CPU": 2}, {"CPU": 1, "GPU": 1}
        for strategy, bundles, want in (
                ("STRICT_PACK", [two, two], []),
                ("STRICT_PACK", [two, two, gpu], ["a placement group (STRICT_PACK) waits for a node with 5 CPUs, 1 GPU, and there is none (a node has at most 4 CPUs, 2 GPUs)"]),
                ("STRICT_SPREAD", [two, gpu], []),
                ("STRICT_SPREAD", [gpu, gpu], ["a placement group (STRICT_SPREAD) waits for 2 nodes with 1 CPU, 1 GPU each, and the cluster has 1"]),
                ("STRICT_SPREAD", [gpu, two, two], ["a placement group (STRICT_SPREAD) waits for 3 nodes, and the cluster has 2"]),
                ("PACK", [two] * 3 + [gpu] * 2, []),
                ("PACK", [{"CPU": 3}] * 2, []),
                ("PACK", [{"CPU": 0.1}] * 80, []),
                ("SPREAD", [{}, two], []),
                ("PACK", [{"GPU": 3}], ["a placement group waits for a node with 3 GPUs, and there is none (a node has at most 2 GPUs)"]),
                ("PACK", [{"CPU": 8}], ["a placement group waits for a node with 8 CPUs, and there is none (a node has at most 4 CPUs)"]),
                ("SPREAD", [gpu] * 3, ["a placement group waits for 3 GPUs in all, and the nodes have 2 GPUs"]),
                ("PACK", [{"CPU": 2.5}] * 3, ["a placement group waits for 3 bundles of 2.5 CPUs, and the nodes have room for 2"])):
            self.assertEqual(waits(nodes, gang=bundles, strategy=strategy), want, (strategy, bundles))

    def test_elastic(self):
        """Of what the autoscaler has given up only what no group can have counts."""
        request = {"resources_bundle": {"CPU": 1000}}
        status = {"cluster_resource_state": {"node_states": [{"status": "IDLE", "total_resources": {"CPU": 1}}]},
                  "autoscaling_state": {"infeasible_resource_requests": [request, {"resources_bundle": {"CPU": 2}}, {"resources_bundle": {"CPU": 2, "memory": 1 << 30}}]}}
        parts = types.SimpleNamespace(**{name: Message(part) for name, part in status.items()})
        self.assertEqual(list(demand.beyond_groups(parts, {"w": {"CPU": 4}}, 3)), [
            "tasks or actors wait for a node with 1000 CPUs, and no group has such nodes",
            "tasks or actors wait for a node with 2 CPUs, 1 GiB of memory, but the memory of group w is not known before its first node: set the group's memory in the cluster file"])


if __name__ == "__main__":
    unittest.main()
