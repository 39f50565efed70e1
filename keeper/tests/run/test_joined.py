"""Nodes of elastic groups that KubeRay starts, by Ray's list of nodes: kuberay/elastic_test.go has them on the real one. Run by `go test ./keeper`."""

import base64
import json
import os
import random
import sys
import tempfile
import unittest
import zlib

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.kubernetes import record
from rayctl_keeper.run import resume
from rayctl_keeper.run.allocations.former import SHOWN
from rayctl_keeper.run.elastic.joined import Joined, beyond
from rayctl_keeper.run.gang.gang import Gang
from rayctl_keeper.state.document import State, seconds_of, wall

ORDERS = {"name": "n", "attempt": 1, "ray": {}, "groups": [{"name": "head", "count": 1}, {"name": "w", "count": 1, "max": 4}, {"name": "v", "count": 1}]}
IDLE = "Terminated due to idle (no Ray activity): Termination of node that's idle for 7.9 seconds."


def row(name, start, end=None, why=IDLE, group="w"):
    """Ray's row of a node that lived from one second to another."""
    return {"node_id": name * 8, "node_name": name, "state": "ALIVE" if end is None else "DEAD", "start_time_ms": start * 1000,
            "end_time_ms": int((end or 0) * 1000), "state_message": "" if end is None else why, "labels": {"ray.io/node-group": group}}


def lives(allocations):
    """(node, from, to, why it went) of allocations."""
    return [(a["id"].partition(".")[0], a["granted"], a["released"], a["message"]) for a in allocations]


class Joins(unittest.TestCase):
    def test_beyond(self):
        """Nodes above the least, each while there were more than that, also when it is the first one that goes."""
        self.assertEqual(beyond("w", 1, [row("a", 1)]), [])
        self.assertEqual(lives(beyond("w", 1, [row("b", 5), row("a", 1)])), [("b", wall(5), None, "")])
        self.assertEqual(lives(beyond("w", 1, [row("a", 1, 9), row("b", 5), row("c", 6, 8, "it was killed")])),
                         [("b", wall(5), wall(9), "it replaced a"), ("c", wall(6), wall(8), "it was killed")])
        self.assertEqual(lives(beyond("w", 1, [row("a", 1, 9), row("b", 5, 12), row("c", 15)])), [("b", wall(5), wall(9), "it replaced a")])
        self.assertEqual(lives(beyond("w", 0, [row("a", 1, 9)])), [("a", wall(1), wall(9), "nothing needed it any more")])

    def look(self, state, rows):
        """A keeper's look at the nodes."""
        class Nodes:
            external, extra = True, {}
        gang = Gang(ORDERS, Nodes, state)
        joined = Joined(ORDERS, gang, state)
        gang.changes([dict(row("h", 0), is_head_node=True, labels={"ray.io/node-group": "headgroup"})] + rows)
        joined.look()
        return joined

    def test_keeper_that_follows(self):
        """What an earlier keeper knew stays, also of nodes that Ray has forgotten; what came and went meanwhile is found."""
        with tempfile.TemporaryDirectory() as directory:
            state = State(ORDERS, directory, lambda text: None)
            self.look(state, [row("a", 1), row("b", 5, 7), row("c", 6), row("x", 1, group="v"), row("y", 2, group="v")])
            self.assertEqual([n["name"] for n in state.doc["nodes"]], ["h", "a", "c", "x", "y"])
            self.assertEqual([(g["ready"], g["wanted"]) for g in state.doc["groups"]], [(1, 1), (2, 2), (1, 1)])
            following = State(ORDERS, directory, lambda text: None)
            following.change(allocations=state.doc["allocations"])
            joined = self.look(following, [row("a", 1), row("c", 6, 8, "it was killed"), row("d", 10, 11), row("e", 20)])
            joined.forget()
            self.assertEqual([a[3] for a in lives(following.doc["allocations"])],
                             ["nothing needed it any more", "it was killed", "nothing needed it any more", "it ended with its cluster"])
            refused = {}
            joined.scale(refused)
            self.assertIn("rayctl scale", refused["refusal"])

    def test_refuses(self):
        """It has no nodes for an autoscaler."""
        with tempfile.TemporaryDirectory() as directory:
            refused = {"launch": None, "release": ["w.1"], "unmet": None}
            self.look(State(ORDERS, directory, lambda text: None), []).change(refused)
            self.assertIn("rayctl scale", refused["refusal"])

    def test_many(self):
        """Ray lists nodes long after their end: one that is only in the sums is not counted again, nor by the keeper that follows."""
        rows = [row("n%03d" % n, 10 * n, 10 * n + 15) for n in range(1, 301)]
        with tempfile.TemporaryDirectory() as directory:
            state = State(ORDERS, directory, lambda text: None)
            for upto in (0, 100, 250, 299, 300, 300):
                self.look(state, [row("a", 1)] + rows[:upto])
            following = State(ORDERS, directory, lambda text: None)
            following.change(**{name: state.doc[name] for name in resume.CARRIED if name.endswith("llocations")})
            self.look(following, list(reversed(rows)) + [row("a", 1)])
            for doc in (state.doc, following.doc):
                self.assertEqual(len(doc["allocations"]), SHOWN)
                self.assertEqual([(f["count"], f["nodeSeconds"], f["most"]) for f in doc["formerAllocations"]], [(100, 1500.0, 2)])

    def test_record(self):
        """Kubernetes keeps 4096 bytes: as many allocations as fit, with the timeline."""
        times = random.Random(1)
        rows = [row("10.1.%d.%d" % (times.randrange(255), i), times.randrange(9999), 9999 + times.random() * 9999) for i in range(SHOWN)]
        state = {"exit": {"code": 0}, "timeline": [{"at": wall(1), "to": "Ready"}], "nodes": rows, "attempts": [{"attempt": 1, "figures": {"steps_lost": 1}}], "allocations": beyond("w", 0, rows)}
        for count in (3, 40, SHOWN):
            text = record.message(dict(state, allocations=state["allocations"][:count]))
            self.assertLessEqual(len(text), 4096)
            found = json.loads((zlib.decompress(base64.b64decode(text[2:])) if text.startswith(b"z:") else text).decode())
            self.assertEqual(len(found["timeline"]), 1)
            self.assertIn(len(found["allocations"]), (count, record.FEW) if count == SHOWN else (count,))
            self.assertEqual(max(a["released"] for a in found["allocations"]), max(a["released"] for a in state["allocations"][:count]))
            former = found.get("formerAllocations") or [{"count": 0, "nodeSeconds": 0}]
            self.assertEqual(len(found["allocations"]) + former[0]["count"], count)
            listed = sum(seconds_of(a["released"]) - seconds_of(a["granted"]) for a in found["allocations"])
            self.assertAlmostEqual(listed + former[0]["nodeSeconds"], sum(seconds_of(a["released"]) - seconds_of(a["granted"]) for a in state["allocations"][:count]), places=1)
            self.assertEqual(found.get("attempts"), state["attempts"])

    def test_record_of_a_long_sentence(self):
        """The message of an end may be anybody's who has the token: the record is one that can be read."""
        chars = random.Random(1)
        noise = "".join(chr(0x10000 + chars.randrange(1 << 16)) for _ in range(10000))
        text = record.message({"exit": {"code": 3, "cause": "x" * 64, "message": noise, "by": noise}, "timeline": [], "nodes": [], "attempts": [], "since": wall(1)})
        self.assertLessEqual(len(text), 4096)
        self.assertEqual(json.loads(text.decode())["exit"]["code"], 3)


if __name__ == "__main__":
    unittest.main()
