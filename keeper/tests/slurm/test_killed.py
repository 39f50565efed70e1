"""What follows a killed keeper of a Slurm job that was ending its cluster. Run by `go test ./keeper`."""

import json
import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.slurm.batch import killed
from rayctl_keeper.state import model

JOB = {"submissionId": "n-1", "state": "SUCCEEDED", "exitCode": 0, "logFile": "job-driver-n-1.log"}


class Killed(unittest.TestCase):
    def concluded(self, phase, code, message, job, restarts=1):
        """The result of the run, and the commands of Slurm that were called (here they do nothing and succeed)."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        place = os.path.join(directory.name, "1")
        os.mkdir(place)
        state = {"attempt": 1, "phase": phase, "reason": {"code": code, "message": message}, "job": job, "attempts": [], "timeline": []}
        orders = {"job": {"restarts": {"nodeFailure": restarts}}}
        for name, content in ("state.json", state), ("orders.json", orders), ("claim", {}):
            with open(os.path.join(place, name), "w") as f:
                json.dump(content, f)
        calls = []
        with mock.patch.dict(os.environ, SLURM_JOB_ID="7"), mock.patch("rayctl_keeper.slurm.batch.killed.end_leftovers"), \
                mock.patch("rayctl_keeper.slurm.controller.commands.insist", lambda *argv, **_: calls.append(list(argv)) or True), \
                mock.patch("rayctl_keeper.slurm.controller.commands.subprocess.call", lambda argv, **_: calls.append(list(argv)) or 0):
            killed.conclude_attempt(directory.name)
        result = os.path.join(place, "result.json")
        if not os.path.exists(result):
            return None, calls
        with open(result) as f:
            return json.load(f), calls

    def test_driver_that_has_ended_is_not_run_again(self):
        result, calls = self.concluded("Draining", "succeeded", "the driver succeeded", JOB)
        self.assertEqual(calls, [])
        self.assertEqual((result["exit"]["origin"], result["exit"]["cause"], result["exit"]["code"]), ("driver", "succeeded", 0))
        self.assertEqual([(a["cause"], a["exitCode"]) for a in result["attempts"]], [("succeeded", 0)])
        result, calls = self.concluded("Draining", "driver-failed", "the driver exited with code 3", dict(JOB, state="FAILED", exitCode=3))
        self.assertEqual((calls, result["exit"]["origin"], result["exit"]["code"]), ([], "driver", 3))

    def test_end_that_was_asked_for(self):
        result, calls = self.concluded("Draining", "down", "ended by hand", dict(JOB, state="RUNNING", exitCode=None))
        self.assertEqual((calls, result["exit"]["cause"], result["exit"]["code"]), ([], "down", 130))
        self.assertEqual(result["exit"]["message"], "ended by hand; meanwhile the keeper was killed")

    def test_no_end_of_its_own(self):
        for phase, code, message in ("Ready", "", ""), ("Draining", "interrupted", model.SIGNALLED + "TERM"):
            result, calls = self.concluded(phase, code, message, dict(JOB, state="RUNNING", exitCode=None))
            self.assertEqual((result, calls), (None, [["scontrol", "update", "JobId=7", "Requeue=1"], ["scontrol", "requeue", "7"]]))
            result, calls = self.concluded(phase, code, message, dict(JOB, state="RUNNING", exitCode=None), restarts=0)
            self.assertEqual((calls, result["exit"]["cause"], result["exit"]["code"]), ([], "lost", 76))


if __name__ == "__main__":
    unittest.main()
