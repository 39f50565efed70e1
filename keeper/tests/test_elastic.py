"""Nodes that Ray's autoscaler asks for. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import process
from rayctl_keeper.run.elastic import Elastic
from rayctl_keeper.run.gang import Gang
from rayctl_keeper.run.nodes import Nodes
from rayctl_keeper.state.document import State

ORDERS = {"name": "n", "attempt": 1, "advertise": "127.0.0.1", "ray": {},
          "groups": [{"name": "head", "count": 1}, {"name": "a", "count": 0, "max": 8}, {"name": "b", "count": 0, "max": 2}]}


class Started(Nodes):
    """Nodes that only are counted. broken: the machine has no process left."""

    broken = False

    def start_one(self, member):
        if self.broken:
            raise OSError(11, "Resource temporarily unavailable")


class Requests(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = State(ORDERS, directory.name, lambda text: None)
        self.nodes = Started(ORDERS, directory.name, process.Bell(), lambda text: None)
        self.elastic = Elastic(ORDERS, self.nodes, Gang(ORDERS, self.nodes, state), state, lambda text: None)

    def launch(self, kind, count, request="r"):
        body = {"launch": {"type": kind, "count": count, "request": request}}
        self.elastic.change(body)
        return body.get("refusal")

    def test_one_request(self):
        """Ray gives one number to all that it asks for in one round: types, batches of five, and what it asks for again."""
        self.assertEqual([self.launch("a", 5), self.launch("a", 1), self.launch("b", 1), self.launch("b", 1)], [None] * 4)
        self.assertEqual(sorted(self.nodes.extra), ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "b-0", "b-1"])

    def test_too_many(self):
        self.assertEqual(self.launch("b", 3), "group b has only 2 more nodes")
        self.assertEqual(sorted(self.nodes.extra), ["b-0", "b-1"])
        self.assertEqual(self.launch("b", 1), "group b has all of its 2 nodes")

    def test_no_process(self):
        self.nodes.broken = True
        self.assertIn("node a-0 cannot be started", self.launch("a", 1))
        self.assertEqual(self.nodes.extra, {})
        self.assertIn("the next try is in", self.launch("a", 1))


if __name__ == "__main__":
    unittest.main()
