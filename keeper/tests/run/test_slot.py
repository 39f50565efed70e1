"""Nodes that need a slot of a queue are started again once the queue has granted another one, also if it does that at once."""

import os
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.run.cluster import Cluster


class Nodes:
    """As run/nodes/spawned.py, Queued: the first start asks for the slot, the next one starts the nodes."""

    queued, granted, held, started = True, False, False, 0

    def stop(self):
        pass

    def start(self):
        self.started += self.granted
        self.granted = True  # the thread that listens may be faster than the keeper


class Slot(unittest.TestCase):
    def test_granted_at_once(self):
        nodes, other = Nodes(), unittest.mock.MagicMock()
        cluster = Cluster(nodes, *[other] * 8)
        cluster.early = other
        cluster._start_again()
        self.assertEqual(nodes.started, 1)

    def test_still_there(self):
        nodes, other = Nodes(), unittest.mock.MagicMock()
        nodes.granted = True
        cluster = Cluster(nodes, *[other] * 8)
        cluster.early = other
        cluster._start_again()
        self.assertEqual(nodes.started, 1)


if __name__ == "__main__":
    unittest.main()
