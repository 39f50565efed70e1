"""What follows a killed keeper of a Slurm job that was ending its cluster. Run by `go test ./keeper`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.slurm.attempts import account
from rayctl_keeper.slurm.batch import batch, killed
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
        with mock.patch.dict(os.environ, SLURM_JOB_ID="7"), mock.patch("rayctl_keeper.slurm.batch.killed.end_leftovers"), mock.patch("rayctl_keeper.slurm.batch.killed.end_orphans"), \
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

    def test_its_srun_ends(self):
        """Also where neither the run's directory nor the controller answers: what the keeper has started gets the signal that ends the nodes."""
        child = subprocess.Popen([sys.executable, "-c", "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3)); print(flush=True); signal.pause()"],
                                 stdout=subprocess.PIPE)
        with child.stdout:
            child.stdout.readline()
        with mock.patch.object(killed.process, "reap", lambda: {}):
            killed.end_orphans()
        self.assertEqual(child.wait(), 3)

    def test_a_controller_that_is_away(self):
        """Has said nothing about the step: it is asked again."""
        answers, slept = [None, "7.0\n", None, ""], []
        with mock.patch.dict(os.environ, SLURM_JOB_ID="7"), mock.patch.object(account.commands, "call"), mock.patch.object(account.commands, "ask", lambda *_: answers.pop(0)), \
                mock.patch.object(account, "select", mock.Mock(select=lambda *a: slept.append(a))):
            account.end_leftovers("USR1", "TERM")
        self.assertEqual(answers, [])

    def test_a_warning_before_the_keeper_takes_it(self):
        """Is not lost, and does not end the run's script: it is blocked in the process that becomes the keeper, and in no other one."""
        masks = []

        def begun(*_, **__):
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            return mock.Mock(wait=lambda: 0)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)}
        self.addCleanup(lambda: [signal.signal(*handler) for handler in handlers.items()])
        with mock.patch.object(batch.subprocess, "Popen", begun), mock.patch.object(batch.process, "become_subreaper"):
            self.assertEqual(batch.main(["/run", "nonce"]), 0)
        self.assertEqual((masks, signal.pthread_sigmask(signal.SIG_BLOCK, ())), ([{signal.SIGUSR1}], set()))

    def test_no_end_of_its_own(self):
        for phase, code, message in ("Ready", "", ""), ("Draining", "interrupted", model.SIGNALLED + "TERM"):
            result, calls = self.concluded(phase, code, message, dict(JOB, state="RUNNING", exitCode=None))
            self.assertEqual((result, calls), (None, [["scontrol", "update", "JobId=7", "Requeue=1"], ["scontrol", "requeue", "7"]]))
            result, calls = self.concluded(phase, code, message, dict(JOB, state="RUNNING", exitCode=None), restarts=0)
            self.assertEqual((calls, result["exit"]["cause"], result["exit"]["code"]), ([], "lost", 76))


if __name__ == "__main__":
    unittest.main()
