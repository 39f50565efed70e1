"""The state document, and the nodes in it. Run by `go test ./keeper` with every Python that the machine has."""

import json
import os
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.node.groups import members
from rayctl_keeper.run.gang.gang import SILENT, Gang
from rayctl_keeper.state.document import State
from rayctl_keeper.state.exits import AttemptLost, End
from sample import orders


class GangAndState(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.state = State(orders(), self.dir.name, lambda text: None)

    def test_revisions(self):
        self.state.phase("Starting", "X", "y")
        before = self.state.doc["revision"]
        self.state.phase("Starting", "X", "y")
        self.assertEqual(self.state.doc["revision"], before)
        seen = []
        waiter = threading.Thread(target=lambda: seen.append(json.loads(self.state.wait(before, 30, "a client").decode())))
        waiter.start()
        self.state.note("job", "RUNNING")
        waiter.join()
        self.assertGreater(seen[0]["revision"], before)
        self.state.final(os.path.join(self.dir.name, "result.json"), End("max", "over").document(), {"bytes": 0, "missing": []})
        with open(os.path.join(self.dir.name, "result.json")) as f:
            self.assertEqual(json.load(f)["exit"]["code"], 124)

    def test_the_end_is_told_to_who_is_between_two_requests(self):
        for comes_back in (lambda: self.state.wait(revision, 30, "a client"), lambda: self.state.left("a client")):
            self.setUp()
            revision = json.loads(self.state.wait(-1, 30, "a client").decode())["revision"]
            self.state.final(os.path.join(self.dir.name, "result.json"), End("max", "over").document(), {"bytes": 0, "missing": []})
            drained = threading.Thread(target=self.state.drain, args=(60,))
            drained.start()
            drained.join(0.05)
            self.assertTrue(drained.is_alive())
            comes_back()
            drained.join(30)
            self.assertFalse(drained.is_alive())

    def test_a_handover_waits_for_who_has_the_last_document(self):
        """They may ask whether it is recorded."""
        self.state.handed_over = True
        self.state.final(os.path.join(self.dir.name, "result.json"), End("max", "over").document(), {"bytes": 0, "missing": []})
        self.state.wait(-1, 30, "a client")
        drained = threading.Thread(target=self.state.drain, args=(60,))
        drained.start()
        drained.join(0.05)
        self.assertTrue(drained.is_alive())
        self.state.left("a client")
        drained.join(30)
        self.assertFalse(drained.is_alive())

    def test_by_name(self):
        class Nodes:
            external, extra = False, {}
            all = staticmethod(lambda: members.members(orders()))
            report = staticmethod(lambda m: {"state": "retrying", "message": "gave up", "pid": 7} if m.name == "w-0" else {})
            pid_of = staticmethod(lambda m: 0)
        gang = Gang(orders(), Nodes, self.state)
        rows = [{"node_name": "head-0", "node_id": "a", "state": "ALIVE", "is_head_node": True},
                {"node_name": "w-0", "node_id": "b", "state": "DEAD"}, {"node_name": "w-1", "node_id": "c", "state": "ALIVE"}]
        self.assertFalse(gang.count(rows))
        self.assertEqual([n["state"] for n in self.state.doc["nodes"]], ["ALIVE", "STARTING", "ALIVE"])
        self.assertEqual(self.state.doc["reason"]["message"], "2 of 3 nodes are alive")
        rows.append({"node_name": "w-0", "node_id": "d", "state": "ALIVE"})
        self.assertTrue(gang.count(rows))
        with self.assertRaises(AttemptLost):
            gang.session = "one"
            gang.same_head({"session_name": "two"})

    def test_supervisor_that_was_killed(self):
        """Ray has lost the node, and its supervisor has not reported that it starts Ray again, as one that lives does."""
        report = {"state": "starting", "at": "1"}

        class Nodes:
            external, extra = False, {}
            all = staticmethod(lambda: members.members(orders()))
            report = staticmethod(lambda m: report)
            pid_of = staticmethod(lambda m: 0)
        gang = Gang(orders(), Nodes, self.state)
        rows = [{"node_name": name, "node_id": name, "state": "ALIVE"} for name in ("head-0", "w-0", "w-1")]
        gang.count(rows)
        rows[1]["state"] = "DEAD"
        gang.count(rows)
        self.assertEqual((gang.row("w-0")["state"], gang.dead), ("DEAD", {}))
        gang.mute["w-0"] -= SILENT
        gang.count(rows)
        self.assertEqual(list(gang.dead), ["w-0"])
        gang.forget()
        rows[1]["state"] = "ALIVE"
        gang.count(rows)
        rows[1]["state"], report = "DEAD", {"state": "retrying", "at": "2"}
        gang.count(rows)
        self.assertEqual((gang.row("w-0")["state"], gang.dead, gang.mute), ("STARTING", {}, {}))

    def test_by_label(self):
        class Nodes:
            external, extra = True, {}
        gang = Gang(orders(), Nodes, self.state)
        rows = [{"node_id": "a", "state": "ALIVE", "is_head_node": True}, {"node_id": "b", "state": "ALIVE", "labels": {"ray.io/node-group": "w"}},
                {"node_id": "c", "state": "ALIVE"}]
        self.assertTrue(gang.count(rows))

    def test_surplus(self):
        """Nodes of one group beyond those that must be there do not stand for a lack in another one, by labels or by names."""
        class Labelled:
            external, extra = True, {}

        class Named:
            external, extra = False, {}
            all = staticmethod(lambda: members.members(told))
            report = staticmethod(lambda m: {})
            pid_of = staticmethod(lambda m: 0)
        told = orders()
        told["groups"][1:] = [{"name": "v", "count": 1, "max": 4}, {"name": "w", "count": 2}]
        for nodes in (Labelled, Named):
            gang = Gang(told, nodes, State(told, self.dir.name, lambda text: None))
            rows = [{"node_id": "h", "node_name": "head-0", "state": "ALIVE", "is_head_node": True, "labels": {"ray.io/node-group": "head"}}] + [
                {"node_id": name, "node_name": name, "state": "ALIVE", "labels": {"ray.io/node-group": name[0]}} for name in ("v-0", "v-1", "v-2", "w-0")]
            self.assertEqual((gang.count(rows), gang.have), (False, "3 of 4 nodes are alive"))
            rows[2].update(node_id="w-1", node_name="w-1", labels={"ray.io/node-group": "w"})
            self.assertEqual((gang.count(rows), gang.have), (True, "4 of 4 nodes are alive"))

    def test_nodes_of_a_group_of_which_none_must_be_there(self):
        class Nodes:
            external, extra = True, {}
        told = orders()
        told["groups"].insert(1, {"name": "elastic", "count": 0})
        for unlabelled, complete in (({}, True), ({"labels": {"ray.io/node-group": "elastic"}}, False)):
            gang = Gang(told, Nodes, State(told, self.dir.name, lambda text: None))
            rows = [{"node_id": "a", "state": "ALIVE", "is_head_node": True}] + [dict(unlabelled, node_id=n, state="ALIVE") for n in "bc"]
            self.assertEqual(gang.count(rows), complete)


if __name__ == "__main__":
    unittest.main()
