"""Which ends of ranks are losses of their nodes. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import rankloss, rayjob
from rayctl_keeper.ranks import main
from rayctl_keeper.state.exits import AttemptLost, driver_end
from rayctl_keeper.state.model import CODES, Cause

RANKS = {"entrypoint": rayjob.RANKS + "python work.py"}


class Log:
    def __init__(self, text):
        self.text = text

    def end(self, limit):
        return self.text[-limit:]


class Loss(unittest.TestCase):
    def lost(self, text, job=RANKS, code=rankloss.CODE):
        try:
            rankloss.check(job, driver_end(code), Log(text))
        except AttemptLost as lost:
            return str(lost), lost.cause
        return None

    def test_what_the_driver_of_ranks_says(self):
        self.assertEqual((main.NODE_GONE, CODES[Cause.LOST]), (rankloss.CODE, rankloss.CODE))
        self.assertEqual(set(rankloss.CAUSES), {main.LOST[len("the node "):], main.TAKEN[len("the node "):]})
        self.assertEqual(self.lost(b"[rank 0] x\nrank 3 on node w-1 ended: the node was lost\n"), ("rank 3 on node w-1 ended: the node was lost", Cause.LOST))
        self.assertEqual(self.lost(b"ranks 2 to 3 on node w-1 ended: the node is being taken away\n[2026 E] core_worker.cc\n")[1], Cause.PREEMPTED)
        self.assertEqual(self.lost(b"rayctl: rank 3 on node w-1 did not start: the node was lost\n")[0], "rank 3 on node w-1 did not start: the node was lost")

    def test_others(self):
        line = b"rank 3 on node w-1 ended: the node was lost\n"
        for text, job, code in ((b"[rank 0] " + line, RANKS, 76), (b"[rank 0]+" + line, RANKS, 76), (line, {"entrypoint": "python work.py"}, 76), (line, RANKS, 1),
                                (b"rank 3 on node w-1 exited with 76\n", RANKS, 76)):
            self.assertIsNone(self.lost(text, job, code))


if __name__ == "__main__":
    unittest.main()
