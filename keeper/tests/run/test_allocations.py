"""The allocation of all required nodes, and which allocation holds a node. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.run.allocations.allocations import Allocations, Main, held
from rayctl_keeper.run.allocations.former import folded, is_former
from rayctl_keeper.state.document import State, seconds_of, wall
from rayctl_keeper.state.model import Purpose

ORDERS = {"name": "n", "attempt": 1, "ray": {}, "lifetime": {"spent": 100}, "groups": [{"name": "head", "count": 1}, {"name": "w", "count": 2, "max": 4}, {"name": "e", "count": 0}]}


class Substrate:
    head_apart, since = False, None

    def granted_as(self):
        return "job 7", self.since


class MainAllocation(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory, self.nodes = directory.name, Substrate()

    def begin(self, **more):
        self.state = State(dict(ORDERS, **more), self.directory, lambda text: None)
        self.main = Main(ORDERS, self.nodes, Allocations(self.state), self.state)

    def last(self):
        return self.state.doc["allocations"][-1]

    def test_granted_before_the_keeper(self):
        """As on Slurm: it was asked for when the run was committed, and granted by the substrate's clock."""
        self.nodes.since = time.time() - 10
        self.begin()
        self.main.granted()
        a = self.last()
        self.assertEqual((a["id"], a["purpose"], a["groups"], a["state"], a["granted"], a["where"], a["released"]),
                         ("main.1", "main", {"head": 1, "w": 2}, "granted", wall(self.nodes.since), "job 7", None))
        self.assertAlmostEqual(time.time() - 100, seconds_of(a["queued"]), delta=5)
        self.main.granted()
        self.main.released("it ended with its cluster")
        self.assertEqual((len(self.state.doc["allocations"]), self.last()["state"], self.last()["where"]), (1, "released", "job 7"))

    def test_in_an_older_job(self):
        """Somebody else's job may have begun days before the run was committed."""
        self.nodes.since = time.time() - 90000
        self.begin()
        self.main.granted()
        self.assertEqual(self.last()["granted"], self.last()["queued"])

    def test_requeued(self):
        """The next attempt waits from when Slurm queued the job again."""
        at, before = wall(time.time() - 20), {"id": "main.1", "purpose": "main", "groups": {}, "state": "released", "released": wall(time.time() - 30)}
        self.begin(allocations=[before], timeline=[{"at": at, "attempt": 2, "event": "phase", "to": "Queued"}])
        self.main.granted()
        self.assertEqual((self.last()["id"], self.last()["queued"], len(self.state.doc["allocations"])), ("main.2", at, 2))

    def test_queued_first(self):
        """As on Kubernetes and in tsp's queue; a slot that was lost is asked for anew."""
        self.begin()
        self.main.queued("the queue has no free slot")
        self.main.queued()
        self.assertEqual((self.last()["state"], self.last()["granted"], self.last()["message"]), ("queued", None, "the queue has no free slot"))
        self.main.granted()
        self.assertEqual((self.last()["state"], self.last()["message"], len(self.state.doc["allocations"])), ("granted", "", 1))
        self.main.released("the queue's slot was lost")
        self.main.queued()
        self.assertEqual([(a["id"], a["state"]) for a in self.state.doc["allocations"]], [("main.1", "released"), ("main.2", "queued")])

    def test_head_apart(self):
        self.nodes.head_apart = True
        self.begin()
        self.main.queued()
        self.main.granted()
        self.assertEqual(self.state.doc["allocations"], [])


class Held(unittest.TestCase):
    def test_nodes(self):
        """A node's allocation and times stay when it has ended; one that takes the place of a required one is held by the main allocation."""
        doc = {"nodes": [], "allocations": [{"id": "main.1", "purpose": "main", "released": None}, {"id": "w-2.1", "purpose": "elastic", "released": None}]}

        def node(name, state, **row):
            return {"name": name, "nodeId": name * 2, "state": state}, row, name == "h", name + ".1"

        doc["nodes"] = held([node("h", "ALIVE", start_time_ms=5000), node("w-2", "ALIVE"), node("w-1", "STARTING")], doc)
        self.assertEqual([(n["allocation"], bool(n["joined"]), n["left"]) for n in doc["nodes"]], [("main.1", True, None), ("w-2.1", True, None), ("main.1", False, None)])
        self.assertEqual(doc["nodes"][0]["joined"], wall(5))
        doc["allocations"][1]["released"] = wall(9)
        self.assertEqual([n["allocation"] for n in held([node("w-2", "ALIVE"), node("h", "DEAD")], doc)], ["main.1", "main.1"])
        gone = held([node("w-2", "DEAD", end_time_ms=9000)], doc)[0]
        self.assertEqual((gone["allocation"], gone["joined"], gone["left"]), ("w-2.1", doc["nodes"][1]["joined"], wall(9)))

    def test_early(self):
        doc = {"nodes": [], "allocations": [{"id": "head.1", "purpose": "head", "released": None}, {"id": "gang.1", "purpose": "gang", "released": None}]}
        found = [({"nodeId": n, "state": "ALIVE"}, {}, n == "h", "") for n in "hw"]
        self.assertEqual([n["allocation"] for n in held(found, doc)], ["head.1", "gang.1"])


class Former(unittest.TestCase):
    def test_sums(self):
        """Of a long life only nodes of elastic groups are dropped from the list, those that ended first, and their seconds are not lost."""
        def node(number, begin, end):
            return {"id": "w-2.%d" % number, "purpose": Purpose.ELASTIC, "groups": {"w": 1}, "granted": begin and wall(begin), "released": wall(end)}

        doc = {"timeline": [{"at": wall(2000), "event": "job", "to": "RUNNING"}, {"at": wall(1000), "event": "phase", "to": "Ready"}, {"at": wall(2050), "event": "phase", "to": "Lost"}],
               "allocations": [{"id": "main.1", "purpose": "main", "groups": {"w": 2}, "granted": wall(1), "released": wall(2)}]}
        nodes = [node(n, 1900 + 10 * n, 1915 + 10 * n) for n in range(300)]  # each beside its successor for 5 s
        nodes[7]["granted"] = None
        in_list = nodes[299:] + nodes[:299]  # it is the time that counts, not the place in the list
        for n in range(0, 300, 20):
            doc.update(folded(doc, doc["allocations"] + in_list[n:n + 20]))
        self.assertEqual([a["id"] for a in doc["allocations"]], ["main.1", "w-2.299"] + ["w-2.%d" % n for n in range(100, 299)])
        # The driver ran from 2000 to 2050: numbers 9 to 14 were there then for 5, 15, 15, 15, 15 and 10 seconds.
        self.assertEqual(doc["formerAllocations"], [{"group": "w", "count": 99, "nodeSeconds": 99 * 15.0, "busyNodeSeconds": 75.0, "most": 2, "until": nodes[99]["released"]}])
        self.assertTrue(is_former(dict(nodes[99], id="x"), doc["formerAllocations"]))
        self.assertFalse(is_former(nodes[100], doc["formerAllocations"]) or is_former(dict(nodes[3], released=None), doc["formerAllocations"]) or is_former(nodes[3], []))
        listed = sum(seconds_of(a["released"]) - seconds_of(a["granted"]) for a in doc["allocations"][1:])
        self.assertEqual(listed + doc["formerAllocations"][0]["nodeSeconds"], 299 * 15)


if __name__ == "__main__":
    unittest.main()
