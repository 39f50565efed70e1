"""How a cluster ends: causes, codes, limits. Run by `go test ./keeper` with every Python that the machine has."""

import os
import signal
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.driver import rayjob
from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.ray import dashboard
from rayctl_keeper.run.end.finalize import Ending
from rayctl_keeper.run.job.attempts import Attempts
from rayctl_keeper.run.limits.limits import Limits
from rayctl_keeper.run.limits.waiting import Waiting
from rayctl_keeper.run.resume import Resumption
from rayctl_keeper.state import exits, model
from rayctl_keeper.state.document import State, wall
from rayctl_keeper.state.exits import AttemptLost
from sample import orders


class Exits(unittest.TestCase):
    def test_codes(self):
        for raw, code, number in ((0, 0, None), (3, 3, None), (255, 255, None), (-15, 143, 15), (137, 137, 9), (139, 139, 11), (128, 128, None)):
            self.assertEqual(exits.shell_code(raw), (code, number))

    def test_signals(self):
        """The sentence begins as the client knows it, and names who sends such a signal."""
        waits = Waiting(orders(signals={"INT": "preempted"}), None, None, unittest.mock.Mock(**{"warned.return_value": None}), *[None] * 6)
        for number, cause, why in ((signal.SIGTERM, "interrupted", "somebody cancelled it"), (signal.SIGUSR1, "time-limit", "time limit"), (signal.SIGINT, "preempted", "SIGINT")):
            end = waits.signalled(number)
            self.assertEqual(end.cause, cause)
            self.assertTrue(end.message.startswith(model.SIGNALLED) and why in end.message, end.message)

    def test_warning(self):
        """Slurm's signal before a preemption is the one before the time limit, which is near only in the second case: within grace, three minutes and the warning. What Slurm
        says counts more."""
        now = time.time()
        for left, told, cause, why in (
                (3600, None, "preempted", ": its nodes are preempted for another job"),
                (400, None, "time-limit", ": the time limit of its nodes is near"),
                (3600, ("time-limit", now + 100, 900.0), "time-limit", ": the time limit of its nodes is near"),  # somebody has moved it
                (400, ("preempted", now + 100, 900.0), "preempted", ": its nodes are preempted for another job")):
            waits = Waiting(orders(job={"grace": 300}), None, None, unittest.mock.Mock(**{"warned.return_value": told}), *[None] * 6)
            with unittest.mock.patch.dict(os.environ, SLURM_JOB_END_TIME=str(int(now) + left)):
                end = waits.signalled(signal.SIGUSR1)
            self.assertEqual((end.cause, end.message), (cause, model.SIGNALLED + "USR1" + why))

    def test_warning_that_comes_early(self):
        """The run goes on until the moment that its driver knows. Other signals, and a preemption, are its end at once."""
        now, start = time.time(), {"warning": 70}
        for numbers, told, ends in (
                ([signal.SIGUSR1], ("time-limit", now + 100, 900.0), False),
                ([signal.SIGUSR1], ("time-limit", now + 60, 900.0), True),
                ([signal.SIGUSR1], ("time-limit", now + 60, 180.0), False),  # a short job
                ([signal.SIGUSR1], ("time-limit", now + 39, 180.0), True),
                ([signal.SIGUSR1], ("preempted", now + 100, 900.0), True),
                ([signal.SIGUSR1], ("time-limit", 0.0, 0.0), True),
                ([signal.SIGUSR1, signal.SIGTERM], ("time-limit", now + 100, 900.0), True)):
            bell, mail, nodes = unittest.mock.Mock(signals=numbers), unittest.mock.Mock(asked=None), unittest.mock.Mock(**{"warned.return_value": told})
            waits = Waiting(orders(start=start, job={"grace": 10}), bell, mail, nodes, *[None] * 6)
            try:
                waits.obey()
                self.assertFalse(ends, (numbers, told))
            except exits.End:
                self.assertTrue(ends, (numbers, told))

    def test_signal_behind(self):
        """A step of Slurm that was cancelled ends before the keeper gets its signal; nodes that nobody signals together with the keeper have ended by themselves."""
        class Bell:
            signals = []

            def wait(self, seconds):
                self.signals.append(signal.SIGTERM)

        for follow, cause in ((True, "interrupted"), (False, None)):
            Bell.signals = []
            waits = Waiting(orders(), Bell(), unittest.mock.Mock(asked=None), unittest.mock.Mock(signals_follow=follow), *[None] * 6)
            try:
                waits.obey_behind()
                self.assertIsNone(cause)
            except exits.End as end:
                self.assertEqual(end.cause, cause)

    def test_records(self):
        def end(**info):
            return rayjob.outcome(dict({"message": "", "error_type": None}, **info)).document()
        self.assertEqual(end(status="SUCCEEDED", driver_exit_code=0)["cause"], "succeeded")
        self.assertEqual(end(status="SUCCEEDED")["code"], 0)  # Ray 2.9 has no driver_exit_code
        self.assertEqual(end(status="FAILED", message="Job entrypoint command failed with exit code 7, last")["code"], 7)
        self.assertEqual(end(status="FAILED", driver_exit_code=-6)["message"], "the driver was ended by SIGABRT")
        self.assertEqual(end(status="STOPPED")["code"], 130)
        broken = end(status="FAILED", message="runtime_env setup failed: Traceback\nValueError: no such package\n")
        self.assertEqual((broken["cause"], broken["code"]), ("submit-failed", 73))
        self.assertIn("ValueError: no such package", broken["message"])
        self.assertEqual(dashboard.error_line(b"Traceback:\nTimeoutError: no answer\n.\n"), "TimeoutError: no answer")
        for message, killed in (("its node has died", False), ("The actor died unexpectedly.\n\tclass_name: JobSupervisor\nThe actor died because its worker process has died.", True)):
            with self.assertRaises(AttemptLost) as lost:
                end(status="FAILED", message="Job supervisor actor died: " + message, error_type="JOB_SUPERVISOR_ACTOR_DIED")
            self.assertEqual("`ray stop` or `pkill` of the driver does that" in str(lost.exception), killed)

    def test_stopped(self):
        """The record of a job that was stopped has the reason, and Ray's own words where it was not."""
        for state, want in (("STOPPED", "lifetime.max (1h) passed"), ("FAILED", "in Ray's words")):
            with tempfile.TemporaryDirectory() as run_dir:
                document = State(orders(), run_dir, lambda text: None)
                log = DriverLog(run_dir, None, None)
                document.change_program("job", state=state, message="in Ray's words")
                ending = Ending(orders(), run_dir, None, None, None, Attempts(orders(), document, log), log, document, lambda text: None)
                ending.complete(exits.limit_end("max", 3600), client_asks_keeper=False)
                self.assertEqual(document.doc["job"]["message"], want)

    def test_sentences(self):
        self.assertEqual(exits.duration(90061), "1d1h1m1s")
        self.assertEqual(exits.limit_end("max", 3600).message, "lifetime.max (1h) passed")


class TheLimits(unittest.TestCase):
    def test_resume(self):
        limits = Limits({"max": 60, "total": 100}, 1000.0)
        limits.resume("max", 1010.0)
        limits.resume("total", None)
        for name in ("max", "total"):
            limits.begin(name, 1000.0)
        self.assertEqual((limits.due("max"), limits.due("total"), limits.passed(1009.9), limits.passed(1010.0)), (1010.0, None, None, "max"))
        limits = Limits({}, 1000.0)
        limits.resume("max", 1010.0)
        limits.begin("max", 1000.0)
        self.assertEqual(limits.due("max"), 1010.0)

    def test_left_and_prolong(self):
        limits = Limits({"max": 60}, 1000.0)
        self.assertEqual((limits.left("max", 1050.0), limits.left("total", 1050.0)), (60, None))
        limits.begin("max", 1000.0)
        self.assertEqual(limits.left("max", 1050.0), 10)
        limits.prolong("max", 30)
        self.assertEqual((limits.left("max", 1050.0), limits.due("max")), (40, 1090))

    def test_another_keeper_goes_on(self):
        def keeper(earlier, awaits_nodes=False):
            limits = Limits({"queue": 50, "start": 30, "max": 60, "total": 100}, time.monotonic())
            Resumption(earlier, "", limits, None, None, None).resume_limits(awaits_nodes, held=False)
            return limits
        ago = wall(time.time() - 20)
        first, waiting = keeper({}), keeper({"phase": "Provisioning", "since": ago, "deadlines": {"max": None, "idle": None, "total": None}})
        running = keeper({"phase": "Ready", "since": ago, "deadlines": {"max": wall(time.time() + 7), "idle": ago, "total": None}})
        starting = {"phase": "Starting", "since": ago, "timeline": [{"event": "phase", "to": "Queued", "at": wall(time.time() - 40)}]}
        whole, without_nodes = keeper(starting), keeper(starting, awaits_nodes=True)
        self.assertAlmostEqual(whole.due("start") - time.monotonic(), 10, delta=5)
        self.assertAlmostEqual(without_nodes.due("queue") - time.monotonic(), 10, delta=5)
        self.assertIsNone(without_nodes.since["start"])
        other_pod = keeper({"deadlines": {"max": "2100-01-02T03:04:05.123456789Z", "total": None}})
        self.assertEqual((first.since["queue"], first.since["max"], waiting.since["max"]), (None, None, None))
        self.assertAlmostEqual(waiting.due("queue") - time.monotonic(), 30, delta=5)
        self.assertAlmostEqual(running.due("max") - time.monotonic(), 7, delta=5)
        self.assertEqual((running.seconds["total"], running.due("idle")), (0, None))
        self.assertGreater(other_pod.due("max") - time.monotonic(), 86400 * 365)

    def test_order(self):
        limits = Limits({"lease": 10, "max": 100, "total": 50, "spent": 20, "idle": 5}, 1000.0)
        self.assertEqual(limits.next(), 1010)
        limits.stop("lease")
        self.assertIsNone(limits.next())
        limits.begin("max", 1000)
        limits.begin("max", 1050)  # counts from the first
        limits.begin("total", 1000)
        self.assertEqual((limits.due("max"), limits.due("total"), limits.passed(1030)), (1100, 1030, "total"))
        limits.restart("idle", 1005)
        self.assertEqual(limits.passed(1011), "idle")
        limits.extend("idle", 1011, 0)
        self.assertIsNone(limits.passed(1011))
        starting = Limits({}, 1000.0)
        starting.extend("idle", 1000, 5)
        self.assertIsNone(starting.due("idle"))  # it is not idle while it starts
        starting.begin("idle", 1010)
        self.assertEqual(starting.due("idle"), 1015)


if __name__ == "__main__":
    unittest.main()
