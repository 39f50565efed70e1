"""A job's own questions to Slurm. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.slurm.controller import allocation, commands


class Commands(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.said = os.path.join(directory.name, "said")
        self.scontrol(directory.name, "PreemptType             = preempt/none")
        self.dir = directory.name
        patch = mock.patch.dict(os.environ, PATH=directory.name + os.pathsep + os.environ["PATH"], SLURM_JOB_ID="7", SQUEUE_STATES="all", SLURM_CLUSTERS="other",
                                SLURM_TIME_FORMAT="relative", SBATCH_PARTITION="p", SLURM_CONF="/c")
        patch.start()
        self.addCleanup(patch.stop)

    def scontrol(self, directory, config):
        """A stand-in that notes what it was asked, and answers as the real one does (24.11)."""
        path = os.path.join(directory, "scontrol")
        with open(path, "w") as f:
            f.write("#!/bin/sh\necho \"$@\" >> %s\n[ \"$1\" != show ] || echo '%s'\n" % (self.said, config))
        os.chmod(path, 0o700)

    def asked(self):
        with open(self.said) as f:
            return f.read().splitlines()

    def test_environment(self):
        env = commands.environment()
        self.assertEqual([name for name in ("SQUEUE_STATES", "SLURM_CLUSTERS", "SBATCH_PARTITION") if name in env], [])
        self.assertEqual((env["SLURM_TIME_FORMAT"], env["SLURM_CONF"], env["SLURM_JOB_ID"]), ("%s", "/c", "7"))

    def test_runs_once_where_nothing_preempts(self):
        commands.run_once()
        self.assertEqual(self.asked(), ["show config", "update JobId=7 Requeue=0"])
        self.assertTrue(commands.requeue())
        self.assertEqual(self.asked()[2:], ["update JobId=7 Requeue=1", "requeue 7"])

    def test_requeued_before_the_answer(self):
        """Slurm ends the job's processes, scontrol too, when it has requeued the job."""
        path = os.path.join(self.dir, "scontrol")
        for end, accepted in (("kill -TERM $$; exit 0", True), ("kill -TERM $$; exit 1", False)):
            with open(path, "w") as f:
                f.write("#!/bin/sh\n[ \"$1\" = requeue ] || exit 0\n%s\n" % end)
            self.assertEqual(commands.requeue(), accepted)

    def test_requeued_by_a_controller_that_was_away(self):
        path, away = os.path.join(self.dir, "scontrol"), os.path.join(self.dir, "away")
        with open(path, "w") as f:
            f.write("#!/bin/sh\necho \"$@\" >> %s\nrm %s 2>/dev/null || exit 0\necho 'Unable to contact slurm controller (connect failure)' >&2\nexit 1\n" % (self.said, away))
        open(away, "w").close()
        with mock.patch.object(commands, "PAUSE", 0.01):
            self.assertTrue(commands.requeue())
        self.assertEqual(self.asked(), ["update JobId=7 Requeue=1", "update JobId=7 Requeue=1", "requeue 7"])

    def test_a_requeue_that_is_superseded(self):
        """The controller was away while the next attempt began elsewhere: that one is not requeued."""
        with open(os.path.join(self.dir, "scontrol"), "w") as f:
            f.write("#!/bin/sh\necho \"$@\" >> %s\necho 'Unable to contact slurm controller (connect failure)' >&2\nexit 1\n" % self.said)
        stands = [True, True, False]
        with mock.patch.object(commands, "PAUSE", 0.01):
            self.assertFalse(commands.requeue(lambda: stands.pop(0)))
        self.assertEqual(self.asked(), 2 * ["update JobId=7 Requeue=1"])

    def test_requeue_that_is_refused(self):
        with open(os.path.join(self.dir, "scontrol"), "w") as f:
            f.write("#!/bin/sh\necho \"$@\" >> %s\necho 'Requested operation is presently disabled' >&2\nexit 1\n" % self.said)
        self.assertFalse(commands.requeue())
        self.assertEqual(self.asked(), ["update JobId=7 Requeue=1"])

    def test_standing(self):
        """What scontrol shows of a heterogeneous job (24.11), with a comment that looks like it."""
        shown = ("JobId=8 HetJobId=7 HetJobOffset=1 JobName=n\n   JobState=RUNNING Reason=None\n   Requeue=1 Restarts=5\n\n"
                 "JobId=7 HetJobId=7 HetJobOffset=0 JobName=n\n   JobState=%s Reason=None\n   Requeue=1 Restarts=%d BatchFlag=1\n   Comment=JobState=OVER Restarts=9\n")
        for state, restarts, want in (("RUNNING", 1, "runs"), ("SUSPENDED", 1, "runs"), ("PENDING", 2, "again"), ("COMPLETING", 2, "again"), ("RUNNING", 2, "again"),
                                      ("COMPLETING", 1, "over"), ("NODE_FAIL", 1, "over")):
            self.scontrol(self.dir, shown % (state, restarts))
            with mock.patch.dict(os.environ, RAYCTL_RESTARTS="1"):
                self.assertEqual(allocation.standing(), want, (state, restarts))
        self.scontrol(self.dir, "")
        self.assertEqual(allocation.standing(), "")

    def test_may_be_queued_again(self):
        self.scontrol(self.dir, "PreemptType             = preempt/qos")
        commands.run_once()
        self.assertEqual(self.asked(), ["show config"])
        with mock.patch.dict(os.environ, SLURM_HET_SIZE="2"):
            commands.run_once()
        self.assertEqual(self.asked(), ["show config"])


if __name__ == "__main__":
    unittest.main()
