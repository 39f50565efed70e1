"""What the end of ranks is told as, and which ends are losses of their nodes. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import rankend, rayjob
from rayctl_keeper.ranks import main
from rayctl_keeper.state.exits import AttemptLost, driver_end
from rayctl_keeper.state.model import CODES, Cause

RANKS = {"entrypoint": rayjob.RANKS + "python work.py"}


class Log:
    def __init__(self, text):
        self.text = text

    def end(self, limit):
        return self.text[-limit:]


class Ends(unittest.TestCase):
    def told(self, text, job=RANKS, code=rankend.CODE):
        """The message of the end, or the loss."""
        end = driver_end(code)
        try:
            rankend.tell(job, end, Log(text))
        except AttemptLost as lost:
            return str(lost), lost.cause
        self.assertEqual(end.driver, driver_end(code).driver)
        return end.message

    def test_losses(self):
        self.assertEqual((main.NODE_GONE, CODES[Cause.LOST]), (rankend.CODE, rankend.CODE))
        self.assertEqual(set(rankend.CAUSES), {": " + main.LOST, ": " + main.TAKEN})
        self.assertEqual(self.told(b"[rank 0] x\nrank 3 on node w-1 ended: the node was lost\n"), ("rank 3 on node w-1 ended: the node was lost", Cause.LOST))
        self.assertEqual(self.told(b"ranks 2 to 3 on node w-1 ended: the node is being taken away\n[2026 E] core_worker.cc\n")[1], Cause.PREEMPTED)
        self.assertEqual(self.told(b"rayctl: rank 3 on node w-1 did not start: the node was lost\n")[0], "rank 3 on node w-1 did not start: the node was lost")

    def test_failures_name_the_rank(self):
        self.assertEqual(self.told(b"[rank 0] x\nrank 3 on node w-1 exited with 7\n", code=7), "rank 3 on node w-1 exited with 7")
        self.assertEqual(self.told(b"rank 3 on node w-1 exited with 76\n"), "rank 3 on node w-1 exited with 76")
        self.assertEqual(self.told(b"rank 3 on node w-1 ended: the node was lost\n", code=1), "rank 3 on node w-1 ended: the node was lost")
        self.assertEqual(len(self.told(b"rank 3 did not start: " + b"x" * 1000, code=1)), rankend.LONGEST)

    def test_what_others_write_is_not_of_ranks(self):
        line = b"rank 3 on node w-1 ended: the node was lost\n"
        for text, job, code in ((b"[rank 0] " + line, RANKS, 76), (b"[rank 0]+" + line, RANKS, 76), (line, {"entrypoint": "python work.py"}, 76), (b"", RANKS, 1), (line, RANKS, 0)):
            self.assertEqual(self.told(text, job, code), driver_end(code).message)


if __name__ == "__main__":
    unittest.main()
