"""What waits for resources that no node can ever have: in the status and in the timeline. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.run.elastic.unmet import MOST, Unmet
from rayctl_keeper.state.document import State
from rayctl_keeper.state.model import NodeState, Phase, Reason
from sample import HOSTILE

FIXED = {"name": "n", "attempt": 1, "groups": [{"name": "head", "count": 1, "max": 0}, {"name": "w", "count": 1, "max": 0}]}
ELASTIC = dict(FIXED, groups=[{"name": "head", "count": 1, "max": 0}, {"name": "w", "count": 1, "max": 4}])


class Waits(unittest.TestCase):
    def begin(self, orders=FIXED, external=False):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state = State(orders, directory.name, lambda text: None)
        self.gang = types.SimpleNamespace(session="s1", complete=True)
        self.nodes(NodeState.ALIVE, NodeState.ALIVE)
        self.unmet = Unmet(orders, external, self.gang, self.state)
        self.state.phase(Phase.READY)

    def nodes(self, *states):
        groups = [dict(g, ready=int(s == NodeState.ALIVE)) for g, s in zip(self.state.doc["groups"], states)]
        self.state.change(nodes=[{"name": str(i), "state": s} for i, s in enumerate(states)], groups=groups)

    def reason(self, *told):
        """The reason after a report, or after another wake."""
        if told:
            self.unmet.take(*told)
        self.unmet.look()
        return self.state.doc["reason"]["message"]

    def notes(self):
        return [e["message"] for e in self.state.doc["timeline"] if e["code"] == Reason.UNMET]

    def test_shown_and_noted_once(self):
        self.begin()
        for _ in range(3):
            self.assertEqual(self.reason(["tasks wait"]), "tasks wait")
        self.assertEqual((self.state.doc["reason"]["code"], self.state.doc["phase"]), ("Unmet", Phase.READY))
        self.assertIn("`rayctl down n`", self.state.doc["reason"]["hint"])
        self.assertEqual(self.reason(["tasks wait", HOSTILE]), "; ".join(sorted(["tasks wait", HOSTILE])))
        self.assertEqual(self.reason([]), "")
        self.assertEqual(self.state.doc["reason"]["code"], "")
        self.reason(["tasks wait"])
        self.assertEqual(self.notes(), ["tasks wait", HOSTILE])
        self.unmet = Unmet(FIXED, True, self.gang, self.state)  # of a keeper that follows
        self.assertEqual((self.reason(), self.reason(["tasks wait"])), ("", "tasks wait"))
        self.assertEqual(self.notes(), ["tasks wait", HOSTILE])

    def test_many(self):
        self.begin()
        self.assertEqual(self.reason(["t%03d" % n for n in range(200)]), "t000; t001; t002 (and 197 more)")
        self.assertEqual(len(self.notes()), MOST)

    def test_other_reasons_stay(self):
        """A silent head or idle GPUs are told by those who see them; what waits is shown when they are over."""
        self.begin()
        self.state.phase(Phase.READY, "HeadSilent", "silent")
        self.assertEqual(self.reason(["tasks wait"]), "silent")
        self.assertEqual(self.notes(), ["tasks wait"])
        self.state.phase(Phase.READY)
        self.assertEqual(self.reason(), "tasks wait")
        self.state.phase(Phase.DRAINING, "down", "ends")
        self.assertEqual((self.reason([]), self.reason(["others wait"])), ("ends", "ends"))

    def test_nodes_on_their_way(self):
        """With the next node it might begin."""
        for orders, external, state, want in ((FIXED, False, NodeState.STARTING, ""), (FIXED, False, NodeState.DEAD, "tasks wait"), (FIXED, True, NodeState.DEAD, ""),
                                              (ELASTIC, False, NodeState.STARTING, "tasks wait"), (ELASTIC, True, NodeState.DEAD, "tasks wait")):
            self.begin(orders, external)
            self.nodes(NodeState.ALIVE, state)
            self.assertEqual(self.reason(["tasks wait"]), want, (external, state))
            self.assertEqual(len(self.notes()), int(bool(want)))
            self.nodes(NodeState.ALIVE, NodeState.ALIVE)
            self.assertEqual(self.reason(), "tasks wait")
            self.assertEqual(len(self.notes()), 1)
        self.begin()
        self.gang.complete = False
        self.assertEqual(self.reason(["tasks wait"]), "")

    def test_another_head(self):
        """What waited on a head that is lost does not wait any more."""
        self.begin()
        self.reason(["tasks wait"])
        self.gang.session = "s2"
        self.assertEqual((self.reason(), self.reason(["others wait"])), ("", "others wait"))


if __name__ == "__main__":
    unittest.main()
