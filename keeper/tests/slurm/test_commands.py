"""A job's own questions to Slurm. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.slurm.controller import commands


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

    def test_may_be_queued_again(self):
        self.scontrol(self.dir, "PreemptType             = preempt/qos")
        commands.run_once()
        self.assertEqual(self.asked(), ["show config"])
        with mock.patch.dict(os.environ, SLURM_HET_SIZE="2"):
            commands.run_once()
        self.assertEqual(self.asked(), ["show config"])


if __name__ == "__main__":
    unittest.main()
