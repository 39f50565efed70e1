"""What of a run is kept for the case that Slurm starts its job again, and what a batch script does that was started again. Run by `go test ./keeper`."""

import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.run.job import attempts
from rayctl_keeper.slurm.attempts import account, after
from rayctl_keeper.slurm.batch import killed, start
from rayctl_keeper.state import model


class Requeued(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.run_dir, self.place = top.name, os.path.join(top.name, "1")
        os.mkdir(self.place)

    def write(self, name, document):
        with open(os.path.join(self.run_dir, name), "w") as f:
            json.dump(document, f)

    def test_restarts_are_counted_once(self):
        """Attempts that a keeper began in the same job and those that began by a requeue use up the same restarts, and so do those that never had a keeper."""
        lost = {"cause": "lost"}

        def used(ended, requeued):
            """How many restarts are used."""
            place = os.path.join(self.run_dir, str(len(requeued) + 1))
            os.makedirs(place, exist_ok=True)
            for number, again in enumerate(requeued, 1):
                os.makedirs(os.path.join(self.run_dir, str(number)), exist_ok=True)
                self.write("%d/%s" % (number, after.AGAIN), again)
            self.write(os.path.join(place, "state.json"), {"attempt": len(ended) + 1, "attempts": [dict(a, attempt=n) for n, a in enumerate(ended, 1)]})
            limits = [n for n in range(5) if after.allowed(self.run_dir, {"job": {"restarts": {"nodeFailure": n}}}, place, "lost")]
            return limits[0] - 1
        self.assertEqual(used([], []), 0)
        self.assertEqual(used([lost], []), 1)
        self.assertEqual(used([lost, lost], [lost]), 2)
        self.assertEqual(used([lost, {"cause": "preempted"}], [{"cause": "preempted"}]), 1)
        self.assertEqual(used([], [lost, lost]), 2)
        orders = {"job": {"restarts": {"nodeFailure": 2}}, "attempts": [dict(lost, attempt=1)]}
        self.assertEqual((attempts.Attempts(orders, None, None).used("nodeFailure"), attempts.Attempts(orders, None, None).left("nodeFailure")), (1, True))

    def test_killed_before_its_first_document(self):
        """The history of the run is in the keeper's orders then."""
        ended = [{"attempt": 1, "cause": "lost", "message": "why", "submissionId": "n-1"}]
        orders = {"name": "n", "attempt": 2, "attempts": ended, "timeline": [{"event": "phase"}], "allocations": [{"id": "main.1"}], "formerAllocations": [], "ray": {}}
        self.write("1/orders.json", orders)
        self.assertEqual(after.last_state(self.place), {name: value for name, value in orders.items() if name != "ray"})
        self.assertEqual([a["cause"] for a in account.attempts_of(after.last_state(self.place), 2, "preempted")], ["lost", "preempted"])
        self.write("1/state.json", {"attempt": 3})
        self.assertEqual(after.last_state(self.place), {"attempt": 3})

    def test_a_start_that_failed_by_slurms_signal(self):
        """The requeue that it was counts as one."""
        failed = {"attempt": 1, "cause": "start-failed", "message": "srun ended"}
        for phase, want in ("Gone", "preempted"), ("Draining", "start-failed"):
            state = {"attempt": 1, "phase": phase, "reason": {"code": "start-failed", "message": "srun ended"}, "attempts": [failed]}
            self.assertEqual(account.overruled(state, "preempted", "why")[0]["cause"], want)

    def test_may_come_back(self):
        """Slurm's signal to the step may be seen before the one to the keeper: the loss of the nodes is no end of the run then. An end of its own is."""
        for cause, message, signals, want in (
                ("lost", "srun ended", [], False),
                ("lost", "srun ended", [signal.SIGTERM], True),
                ("start-failed", "srun ended", [signal.SIGTERM], True),
                ("succeeded", "the driver succeeded", [signal.SIGTERM], False),
                ("interrupted", model.SIGNALLED + "TERM", [], True),
                ("interrupted", model.SIGNALLED + "USR1", [signal.SIGUSR1], False)):
            self.write("1/result.json", {"exit": {"cause": cause, "message": message}})
            self.assertEqual(start.may_come_back(self.place, signals), want, (cause, message, signals))

    def test_a_run_that_has_ended(self):
        """Its job was requeued when the result was written: that stays, and nothing is started."""
        result = {"exit": {"cause": "succeeded", "message": "the driver succeeded"}}
        for name, content in ("record.json", {"nonce": "n"}), ("job", 7), ("1/claim", {}), ("1/commit", {}), ("1/orders.json", {"lifetime": {}}), ("1/result.json", result):
            self.write(name, content)
        with mock.patch.dict(os.environ, RAYCTL_RESTARTS="1", SLURM_JOB_ID="7"), contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(start.begin_attempt(self.run_dir, "n"), 0)
        self.assertIn("has ended", out.getvalue())
        self.assertEqual(start.load(os.path.join(self.place, "result.json")), result)
        self.assertFalse(os.path.exists(os.path.join(self.run_dir, "2")))

    def test_an_end_that_was_begun(self):
        """Slurm queued the job again while its keeper was ending the cluster, and the keeper died with it: a driver that has ended is not run again."""
        job, orders = {"submissionId": "n-1", "exitCode": 3}, {"job": {"restarts": {"nodeFailure": -1}}}
        for phase, code, again in ("Draining", "driver-failed", False), ("Draining", "down", False), ("Draining", "lost", True), ("Ready", "", True):
            state = {"attempt": 1, "phase": phase, "reason": {"code": code, "message": "why"}, "job": job}
            for name, content in ("1/state.json", state), ("1/orders.json", orders):
                self.write(name, content)
            with mock.patch.dict(os.environ, RAYCTL_RESTARTS="1", SLURM_JOB_ID="7"), mock.patch("rayctl_keeper.slurm.batch.start.end_leftovers"), \
                    mock.patch("rayctl_keeper.slurm.attempts.account.commands.ask", return_value=""):
                self.assertEqual(start.may_follow(self.run_dir, self.place), again, (phase, code))
            result = start.load(os.path.join(self.place, "result.json"))
            self.assertEqual(result.get("exit", {}).get("cause"), None if again else code)
            if result:
                os.unlink(os.path.join(self.place, "result.json"))

    def test_killed_before_it_was_announced(self):
        """The attempt before is not judged a second time."""
        for name, content in ("current", {"attempt": "1", "start": 100}), ("1/claim", {}), ("1/state.json", {"attempt": 1}), ("1/orders.json", {}):
            self.write(name, content)
        os.mkdir(os.path.join(self.run_dir, "seed"))
        with mock.patch.dict(os.environ, SLURM_JOB_ID="7", SLURM_JOB_START_TIME="200"):
            killed.conclude_attempt(self.run_dir)
        self.assertEqual(sorted(os.listdir(self.run_dir) + os.listdir(self.place)), ["1", "claim", "current", "orders.json", "seed", "state.json"])


if __name__ == "__main__":
    unittest.main()
