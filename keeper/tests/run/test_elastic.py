"""Nodes that Ray's autoscaler asks for. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import process
from rayctl_keeper.node.groups import autoscaling, members
from rayctl_keeper.node.start import raystart
from rayctl_keeper.run.elastic.elastic import Elastic, life
from rayctl_keeper.run.elastic.sizes import Sizes
from rayctl_keeper.run.gang.gang import Gang
from rayctl_keeper.run.nodes.common import Nodes
from rayctl_keeper.slurm.attempts import account
from rayctl_keeper.state.document import State

ORDERS = {"name": "n", "attempt": 1, "advertise": "127.0.0.1", "ray": {},
          "groups": [{"name": "head", "count": 1}, {"name": "a", "count": 0, "max": 8}, {"name": "b", "count": 0, "max": 2}]}


class Started(Nodes):
    """Nodes that only are counted. broken: the machine has no process left."""

    broken = False

    def start_one(self, member):
        if self.broken:
            raise OSError(11, "Resource temporarily unavailable")

    def remove(self, member):
        member.released = True


class Requests(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.begin(ORDERS)

    def begin(self, orders):
        self.state = State(orders, self.directory, lambda text: None)
        self.nodes = Started(orders, self.directory, process.Bell(), lambda text: None)
        self.elastic = Elastic(orders, "/nowhere", self.nodes, Gang(orders, self.nodes, self.state), self.state, lambda text: None)

    def launch(self, kind, count, request="r"):
        body = {"launch": {"type": kind, "count": count, "request": request}}
        self.elastic.change(body)
        return body.get("refusal")

    def test_one_request(self):
        """Ray gives one number to all that it asks for in one round: types, batches of five, and what it asks for again."""
        self.assertEqual([self.launch("a", 5), self.launch("a", 1), self.launch("b", 1), self.launch("b", 1)], [None] * 4)
        self.assertEqual(sorted(self.nodes.extra), ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "b-0", "b-1"])

    def test_speed(self):
        """Nodes that are on their way count, unlike in Ray, which asks for as many again at each look."""
        for speed, alive, wanted in ((1, 0, 1), (0.5, 0, 1), (2, 0, 2), (2, 2, 6), (1.2, 3, 7), (10_000, 0, 5)):
            self.begin(dict(ORDERS, scaling={"upscalingSpeed": 10_000}))
            self.launch("a", alive)
            self.elastic._gang.changes([{"node_name": "a-%d" % i, "node_id": str(i), "state": "ALIVE"} for i in range(alive)])
            self.elastic._sizes._scaling["upscalingSpeed"] = speed
            first = self.launch("a", 5)
            self.assertEqual(len(self.nodes.extra), wanted, (speed, alive))
            if wanted - alive < 5:
                self.assertEqual(first, "group a gets only %d more nodes now" % (wanted - alive))
                self.assertEqual(self.launch("a", 1), "group a has as many nodes on their way as scaling.upscalingSpeed allows")
            self.assertIsNone(self.launch("b", 1))

    def test_ray_is_first(self):
        """Ray lists a node before the batch system's queue is read again: one document shows the node and that its allocation is granted, and it stays so."""
        waits = ("queued", "job 33: Resources", "2026-01-02T03:04:05.000Z")
        self.nodes.standing = lambda member: waits
        self.launch("a", 2)
        self.elastic.look()
        self.elastic._gang.changes([{"node_name": "a-1", "node_id": "1", "state": "ALIVE"}])
        self.elastic.look()
        first, second = self.state.doc["allocations"]
        self.assertEqual((first["state"], first["message"], first["expected"], first["granted"]), waits + (None,))
        self.assertEqual((second["state"], second["message"], second["expected"]), ("granted", "job 33", None))
        self.assertIsNotNone(second["granted"])
        waits = ("queued", "job 33: Priority", None)  # the queue as it was read before
        self.elastic.look()
        self.assertEqual([(a["state"], a["message"]) for a in self.state.doc["allocations"]], [("queued", "job 33: Priority"), ("granted", "job 33")])

    def test_room(self):
        """What Ray's autoscaler may ask for now, so that it asks for no more; what it keeps is noted once where scaling.maxAllocations is the reason."""
        self.assertEqual(self.elastic.room(), {})
        self.begin(dict(ORDERS, scaling={"upscalingSpeed": 2, "maxAllocations": 3}))
        self.assertEqual(self.elastic.room(), {"a": 2, "a.required": 2})
        self.launch("a", 2)
        self.assertEqual(self.elastic.room(), {"a": 0, "a.required": 0, "b": 1, "b.required": 1})
        self.elastic._gang.changes([{"node_name": name, "node_id": name, "state": "ALIVE"} for name in ("a-0", "a-1")])
        self.assertEqual(self.elastic.room()["a"], 1)
        notes = lambda: [e["message"] for e in self.state.doc["timeline"] if e["event"] == "scaling"]
        self.elastic.change({"held": {"a": 1}})
        self.assertEqual(notes(), [])  # one is allowed: it is on its way
        self.launch("a", 1)
        for held in ({"a": 2}, {"a": 2}, {}, {"a": 2}):
            self.elastic.change({"held": held})
        self.assertEqual(notes(), ["group a needs 2 more nodes, but the cluster already has the 3 that scaling.maxAllocations allows"] * 2)
        self.begin(dict(ORDERS, scaling={"upscalingSpeed": 10_000}))
        self.launch("a", 1)
        self.elastic.ended("a-0", 1)
        self.assertEqual(self.elastic.room(), {"a": 0, "a.required": 0})

    def test_name_again(self):
        """A node that fails to start has a pause and a reason, also where one of its name had gone because nothing needed it."""
        row = {"node_name": "a-0", "node_id": "1", "state": "DEAD", "state_message": "Terminated due to idle (no Ray activity)"}
        self.launch("a", 1)
        self.elastic._gang.changes([row])
        self.assertEqual(self.elastic._gang.row("a-0")["state"], "ENDED")
        self.elastic.ended("a-0", 1)
        for look in (lambda: None, lambda: self.elastic._gang.changes([row])):
            self.elastic._pace._not_before.clear()
            self.assertIsNone(self.launch("a", 1))
            look()
            self.nodes.extra["a-0"].message = "Invalid account"
            self.elastic.ended("a-0", 1)
            self.assertEqual(self.state.doc["allocations"][-1]["message"], "Invalid account")
            self.assertIn("failed to start", self.launch("a", 1) or "")

    def test_lost_while_it_is_released(self):
        """Ray's autoscaler gives up a node whose machine is dead before Ray's nodes say so: the allocation has the reason, not that nothing needed it."""
        row = {"node_name": "a-0", "node_id": "1", "state": "ALIVE"}
        self.launch("a", 1)
        self.elastic._gang.changes([row])
        member = self.nodes.extra["a-0"]
        self.elastic.change({"release": [life(member, self.nodes.round, self.nodes.report(member))]})
        self.elastic._gang.changes([dict(row, state="DEAD", state_message="health check failed")])
        member.message = "its job 7 ended (CANCELLED)"
        self.elastic.ended("a-0", 1)
        self.assertEqual(self.state.doc["allocations"][-1]["message"], "health check failed")

    def test_open_resources(self):
        """What the file leaves open Ray's autoscaler knows from nodes: on one machine from any, else from those of the group."""
        orders = dict(ORDERS, groups=[{"name": "head", "count": 1}, {"name": "a", "count": 0, "max": 8, "cpus": 1}, {"name": "b", "count": 0, "max": 2, "memory": 5}])
        found = {"head": {"memory": 7e9, "accelerator_type:A": 1.0}}
        for mode, want in (("spawn", {"CPU": 1, "memory": 7000000000}), ("step", {"CPU": 1})):
            types = autoscaling.document(dict(orders, start={"mode": mode}), "/nowhere", autoscaling.limits_of(orders), found)["available_node_types"]
            self.assertEqual((types["a"]["resources"], types["b"]["resources"]), (want, {"memory": 5}))
        found["a"] = {"memory": 3e9, "accelerator_type:B": 1.0}
        types = autoscaling.document(dict(orders, start={"mode": "step"}), "/nowhere", autoscaling.limits_of(orders), found)["available_node_types"]
        self.assertEqual(types["a"]["resources"], {"CPU": 1, "memory": 3000000000, "accelerator_type:B": 1})

    def test_pace(self):
        """Ray reads whole seconds. Only the head has its autoscaler; two looks are between a node that nothing uses and its end."""
        head, worker = (raystart.autoscaled(ORDERS, member, {}, "") for member in (members.members(ORDERS)[0], members.named(ORDERS, "a-0")))
        self.assertNotIn("AUTOSCALER_UPDATE_INTERVAL_S", worker)
        self.assertEqual(head["AUTOSCALER_UPDATE_INTERVAL_S"], "1")
        self.assertEqual(head["RAY_AUTOSCALER_PENDING_NODE_IDLE_TIMEOUT_S"], "300")

    def test_next_attempt(self):
        """The receipt counts the nodes of earlier attempts, too; on Slurm each has a keeper of its own."""
        self.launch("a", 2)
        before = account.allocations_of(self.state.doc, "2026-01-01T00:00:00.000Z")
        self.begin(dict(ORDERS, allocations=before))
        self.launch("a", 1)
        self.assertEqual([(a["id"], a["state"], bool(a["released"])) for a in self.state.doc["allocations"]],
                         [("a-0.1", "released", True), ("a-1.2", "released", True), ("a-0.3", "granted", False)])

    def test_scale(self):
        """The event has the bounds and not a change from one to the other."""
        Sizes(ORDERS, self.directory, self.nodes, self.state).scale([{"group": "b", "min": 1, "max": 2}])
        event = self.state.doc["timeline"][-1]
        self.assertEqual((event["event"], event["to"], event["message"]), ("scale", "b", "at least 1 and at most 2 nodes"))

    def test_too_many(self):
        self.assertEqual(self.launch("b", 3), "group b gets only 2 more nodes now")
        self.assertEqual(sorted(self.nodes.extra), ["b-0", "b-1"])
        self.assertEqual(self.launch("b", 1), "group b has all of its 2 nodes")

    def test_no_process(self):
        self.nodes.broken = True
        self.assertIn("node a-0 cannot be started", self.launch("a", 1))
        self.assertEqual(self.nodes.extra, {})
        self.assertIn("the next try is in", self.launch("a", 1))


if __name__ == "__main__":
    unittest.main()
