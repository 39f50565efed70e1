"""Never two keepers of one run. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import threading
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.slurm.attempts import tenure


class Tenures(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.run_dir = top.name
        self.before, self.place = os.path.join(top.name, "1"), os.path.join(top.name, "2")
        os.mkdir(self.before)
        os.mkdir(self.place)

    def write(self, name, text):
        with open(os.path.join(self.run_dir, name), "w") as f:
            f.write(text)

    def test_who_must_end(self):
        for superseded, silent, standing, want in (
                (False, 0, "again", False),  # it renews: what Slurm says is not asked
                (True, 0, "runs", True),
                (False, 31, "runs", False),  # the directory is away, for all
                (False, 31, "again", True),
                (False, 31, "over", True),
                (False, 31, "", True)):  # it is cut off from both
            self.assertEqual(tenure.is_over(superseded, lambda: silent, 30, lambda: standing), want, (superseded, silent, standing))
        renewals = [31, 2]
        self.assertFalse(tenure.is_over(False, lambda: renewals.pop(0), 30, lambda: ""))  # it renewed while Slurm was asked

    def test_a_directory_that_hangs(self):
        """On a network file system that is away, whoever reads or writes there waits: the keeper ends all the same."""
        for hangs in ("superseded", "utime"):
            ended, back = threading.Event(), threading.Event()
            self.addCleanup(back.set)
            keeper = tenure.Tenure(self.run_dir, self.before)
            with mock.patch.object(tenure, "RENEW", 0.01), mock.patch.object(tenure, "LOOK", 0.01), mock.patch.object(tenure, "silence", return_value=0.05), \
                    mock.patch.object(keeper, "standing", lambda _: ""), mock.patch.object(keeper if hangs == "superseded" else tenure.os, hangs, lambda *_: back.wait()):
                keeper.begin(lambda: (ended.set(), keeper.release()))
                self.assertTrue(ended.wait(30), hangs)

    def test_its_file_is_there_at_once(self):
        """A host may be cut off before Slurm has said how long the keeper may be silent."""
        asked = threading.Event()
        self.addCleanup(asked.set)
        keeper = tenure.Tenure(self.run_dir, self.before)
        with mock.patch.object(tenure, "silence", lambda: asked.wait() and 30):
            keeper.begin(lambda: None)
            with open(os.path.join(self.before, tenure.FILE)) as f:
                self.assertEqual(f.read(), "%d" % tenure.DEFAULT)
            keeper.release()
            asked.set()
            keeper._renew()  # Slurm's answer comes late
        self.assertEqual(os.listdir(self.before), [])

    def test_superseded(self):
        first, second = tenure.Tenure(self.run_dir, self.before), tenure.Tenure(self.run_dir, self.place)
        self.assertFalse(first.superseded())
        for text, want in ('{"attempt": 2}', (True, False)), ('{"attempt": 3}', (True, True)), ("{", (False, False)):
            self.write(tenure.NEXT, text)
            self.assertEqual((first.superseded(), second.superseded()), want, text)

    def test_one_that_comes_back_ends(self):
        """The next attempt waits for a keeper that renews, which ends when it sees that."""
        ended = threading.Event()
        with mock.patch.object(tenure, "RENEW", 0.01), mock.patch.object(tenure, "silence", return_value=300):
            keeper = tenure.Tenure(self.run_dir, self.before)
            keeper.begin(lambda: (ended.set(), keeper.release()))
            while not os.path.exists(os.path.join(self.before, tenure.FILE)):
                self.assertFalse(ended.wait(0.01))
            tenure.take_over(self.run_dir, self.before, 2)
        self.assertTrue(ended.is_set())

    def test_the_next_attempt_waits_no_longer(self):
        """Than its predecessor may be silent, and not at all where Slurm has written that it ended it."""
        path = os.path.join(self.before, tenure.FILE)
        tenure.take_over(self.run_dir, self.before, 2)  # there is none
        self.write("1/" + tenure.FILE, "30")
        os.utime(path, (0, 0))
        tenure.take_over(self.run_dir, self.before, 2)
        os.utime(path)
        waits = threading.Thread(target=tenure.take_over, args=(self.run_dir, self.before, 2))
        waits.start()
        waits.join(0.1)
        self.assertTrue(waits.is_alive())
        tenure.let_go(self.before)
        waits.join()
        self.write("1/" + tenure.FILE, "30")
        self.write("slurm.out", "slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n")
        tenure.take_over(self.run_dir, self.before, 2)

    def test_silence(self):
        for config, want in ("SlurmdTimeout           = 600 sec\n", 600), ("SlurmdTimeout           = 10 sec\n", 15), ("SlurmdTimeout           = 0 sec\n", 300), (None, 300):
            with mock.patch.object(tenure.commands, "ask", return_value=config):
                self.assertEqual(tenure.silence(), want, config)


if __name__ == "__main__":
    unittest.main()
