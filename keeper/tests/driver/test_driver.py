"""The driver's submission and its log. Run by `go test ./keeper` with every Python that the machine has."""

import fcntl
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.driver import pipe, rayjob
from rayctl_keeper.driver.figures import MOST, TAIL, figures
from rayctl_keeper.driver.log import TRUNCATED, DriverLog
from rayctl_keeper.node.groups import members
from rayctl_keeper.node.start import raystart
from rayctl_keeper.ray import dashboard
from rayctl_keeper.run.gang.gang import Gang
from rayctl_keeper.run.head.head import Head
from rayctl_keeper.run.head.silence import Silence
from rayctl_keeper.run.job.attempts import Attempts
from rayctl_keeper.run.job.job import Job
from rayctl_keeper.state.document import State
from rayctl_keeper.state.exits import AttemptLost, End
from sample import HOSTILE, orders


class Submission(unittest.TestCase):
    def test_gpus_are_divided_on_one_machine(self):
        o = orders()
        def visible(index, base=None):
            return raystart.environment(o, members.members(o)[index], "/tmp/r", "/run", {}, base or {}).get("CUDA_VISIBLE_DEVICES")
        self.assertEqual([visible(i) for i in range(3)], [None, "0", "1"])
        self.assertEqual([visible(i, {"CUDA_VISIBLE_DEVICES": "3,GPU-5"}) for i in range(3)], ["3,GPU-5", "3", "GPU-5"])
        self.assertEqual(visible(2, {"CUDA_VISIBLE_DEVICES": "3"}), "3")
        o["start"] = {"mode": "step"}
        self.assertEqual(visible(2), None)

    def test_environment(self):
        o = orders()
        o["job"].update(env={"K": HOSTILE, "RAYCTL_RUN": "mine"}, cwd="/dir with 'quotes'", entrypointNumCpus=2)
        body = rayjob.submission(o, {"runtimeEnv": {"env_vars": {"K": "other", "L": "1"}, "pip": ["x"]}}, 3, "lost", None)
        env = body["runtime_env"]["env_vars"]
        self.assertEqual((env["K"], env["L"], env["RAYCTL_RUN"], env["RAYCTL_ATTEMPT"], env["RAYCTL_RESTART_REASON"]),
                         (HOSTILE, "1", "n", "3", "lost"))
        self.assertEqual(env["RAYCTL_CWD"], "/dir with %27quotes%27")
        self.assertEqual((body["metadata"], rayjob.submission(orders(), {}, 3, "", None)["metadata"]), ({"rayctl.reserves": "2 CPUs"}, {}))
        self.assertEqual((body["submission_id"], body["entrypoint_num_cpus"], body["runtime_env"]["pip"]), ("n-3", 2, ["x"]))
        with tempfile.TemporaryDirectory() as top:
            odd = os.path.join(top, "a 'b' $(c)\nd")
            os.mkdir(odd)
            text = rayjob.in_directory(odd, "pwd -P; exit 3")
            ran = subprocess.run(text, shell=True, stdout=subprocess.PIPE, check=False)
            self.assertEqual((ran.returncode, ran.stdout.decode()), (3, os.path.realpath(odd) + "\n"))
            for there in (odd, odd + "/none"):
                ran = subprocess.run(rayjob.in_directory(there, "pwd -P; exit 3", True), shell=True, cwd=top, stdout=subprocess.PIPE, check=False)
                expected = os.path.realpath(odd) + "\n" if there == odd else rayjob.NOT_HERE % there + "\n" + os.path.realpath(top) + "\n"
                self.assertEqual((ran.returncode, ran.stdout.decode()), (3, expected))
            for line in text, rayjob.in_directory(odd, "pwd -P; exit 3", True):
                self.assertEqual(rayjob.user_command(line), "pwd -P; exit 3")
            self.assertEqual(rayjob.user_command("cd -- x\necho"), "cd -- x\necho")  # the user's own
            self.assertEqual(subprocess.run(rayjob.in_directory(odd + "/none", "exit 3"), shell=True, stderr=subprocess.DEVNULL, check=False).returncode, 1)

    def test_the_users_command_is_shown_first(self):
        o = orders()
        for command, title in (("python a.py", "# python a.py\n"), ("\n python a.py \\\n --x", "# python a.py\n"), ("# mine\ntrue", "# # mine\n"),
                               ("é" * 300, "# " + "é" * 200 + "\n")):
            for prepare in None, "echo 1":
                o["job"].update(entrypoint=command, cwd="/a b", cwdOptional=True, prepare=prepare)
                line = rayjob.submission(o, {}, 1, "", None)["entrypoint"]
                self.assertTrue(line.startswith(title + pipe.LINE), line)
                self.assertEqual((rayjob.user_command(line), line), (command, rayjob.driver_command(o)))
        self.assertTrue(rayjob.prepare_command(o).startswith("# echo 1\n"))
        self.assertEqual(rayjob.user_command(pipe.LINE + "a"), "a")  # an earlier rayctl's
        self.assertEqual(rayjob.user_command("# a\na"), "# a\na")  # the user's own comment

    def test_answers_that_are_lost(self):
        class Ray:
            """The dashboard as measured: a POST that answers 500 or is cut may have been accepted."""
            def __init__(self, answers):
                self.answers, self.posts, self.known = answers, 0, False

            def job(self, _id, _timeout=2.0):
                return {} if self.known else None

            def submit(self, _body):
                self.posts += 1
                accepted, error = self.answers.pop(0)
                self.known = accepted
                if error:
                    raise error
        silence = Silence(unittest.mock.Mock(answered=0.0), unittest.mock.Mock(), lambda: (["the GCS"], False), 300.0)
        cut, refused = dashboard.Unreachable("cut"), dashboard.Refused(500, "boom")
        for answers, posts in (([(True, cut)], 1), ([(True, refused)], 1), ([(False, cut), (True, None)], 2), ([(False, refused), (True, None)], 2)):
            ray = Ray(answers)
            rayjob.submit(ray, {"submission_id": "x"}, silence, lambda _: None, lambda _: None)
            self.assertEqual(ray.posts, posts)
        for words in ("aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.1:52365",
                      "No available agent to submit job, please try again later."):
            away = dashboard.Refused(500, words)
            ray = Ray([(False, away), (False, away), (False, away), (True, None)])
            rayjob.submit(ray, {"submission_id": "x"}, silence, lambda _: None, lambda _: None)
            self.assertEqual(ray.posts, 4)
        with self.assertRaises(End):
            rayjob.submit(Ray([(False, refused), (False, refused)]), {"submission_id": "x"}, silence, lambda _: None, lambda _: None)
        with self.assertRaises(End):
            rayjob.submit(Ray([(False, dashboard.Refused(400, "bad"))]), {"submission_id": "x"}, silence, lambda _: None, lambda _: None)

    def test_another_head_gets_no_job(self):
        """A head that is replaced while the keeper submits: the attempt is lost, and its job is not submitted to the next head."""
        gang, ray = Gang(orders(), None, None), unittest.mock.Mock(answered=0.0)
        gang.session = "one"
        head = Head({}, unittest.mock.Mock(gcs=""), gang, unittest.mock.Mock(ended=False, runs=False), unittest.mock.Mock(), unittest.mock.Mock())
        head.dashboard = ray
        ray.job.return_value = None
        ray.version.side_effect = [{"session_name": "one"}, {"session_name": "two"}]
        ray.submit.side_effect = dashboard.Unreachable("cut")
        with self.assertRaises(AttemptLost):
            rayjob.submit(ray, {"submission_id": "n-1"}, head.silence(), lambda _: None, head.is_same)
        self.assertEqual(ray.submit.call_count, 1)

    def test_a_silent_head_is_asked_again_before_it_gets_the_job(self):
        state = unittest.mock.Mock(doc={"attempt": 1, "job": {"state": "WAITING"}})
        nodes, driver = unittest.mock.Mock(gcs=""), unittest.mock.Mock(ended=False, runs=False)
        head = Head({}, nodes, None, driver, unittest.mock.Mock(), state)
        head.dashboard = unittest.mock.Mock(answered=0.0)
        head.dashboard.job.side_effect = [dashboard.Slow("timed out"), dashboard.Slow("timed out"), {"status": "RUNNING"}]
        Job("/nonexistent", head, driver, None, None, None, unittest.mock.Mock(), state, None).submit({"submission_id": "n-1"})
        self.assertEqual(head.dashboard.job.call_count, 3)
        head.dashboard.submit.assert_not_called()

    def test_the_record_knows_the_head_first(self):
        """The record's pod has the document before the head has the job: it hands that to a keeper that follows, which then knows of another head that it is another one."""
        with tempfile.TemporaryDirectory() as run_dir:
            state, ray, asked = State(orders(), run_dir, print), unittest.mock.Mock(answered=0.0), []
            state.handed_over = True
            state.change(head=dict(state.doc["head"], session="one"))
            ray.job.return_value = None

            def pause(_seconds):
                asked.append(state.doc["revision"] - 1 + len(asked))  # the document before, then this one
                ray.submit.assert_not_called()
                state.wait(asked[-1], 0, "the record", of_record=True)

            head = unittest.mock.Mock(dashboard=ray, silence=lambda: Silence(ray, state, lambda: ([], False), 60.0))
            Job(run_dir, head, None, None, None, unittest.mock.Mock(packages=list), unittest.mock.Mock(pause=pause), state, print).submit({"submission_id": "n-1"})
            self.assertEqual(asked, [state.doc["revision"] - 1, state.doc["revision"]])
            ray.submit.assert_called_once()


class Figures(unittest.TestCase):
    def test_lines(self):
        """Only numbers, at the beginning of a line of their own; the last of a name counts."""
        said = (b"rayctl-figure steps_lost=3\r\nloss rayctl-figure loss=1\nrayctl-figure loss=0.25\nrayctl-figure tokens.per-s=1.5e+3 \n"
                b"rayctl-figure steps_lost=-1\n(Worker pid=7) rayctl-figure a=1\nrayctl-figure last=7")
        self.assertEqual(figures(said), {"steps_lost": -1, "loss": 0.25, "tokens.per-s": 1500.0, "last": 7})

    def test_hostile(self):
        """A driver can neither fill the state nor put text into it."""
        bad = [b"nan", b"inf", b"1e999", b"0x1", b"1 2", b"", b"--1", b"1_0", b"9" * 16, b"\xd9\xa1", b"\x1b[2J", b"1\x00", b".5"]
        names = [b"1a", b"a b", b"a" * 33, b"", b"\xc3\xa9", b"a=b", b"\x1b[0m", b"_a"]
        lines = [b"rayctl-figure a=" + value for value in bad] + [b"rayctl-figure " + name + b"=1" for name in names]
        self.assertEqual(figures(b"\n".join(lines)), {})
        many = figures(b"".join(b"rayctl-figure n%d=1\n" % n for n in range(1000)) + b"rayctl-figure n3=2\n")
        self.assertEqual((len(many), many["n3"], many.get("n999")), (MOST, 2, None))
        self.assertEqual(figures(b"rayctl-figure big=1e99\n" + b"\xff" * TAIL), {"big": 1e99})
        json.dumps(many, allow_nan=False)

    def test_of_attempts(self):
        """Each attempt has its driver's; one in which only job.prepare ran has none."""
        with tempfile.TemporaryDirectory() as top:
            state = State(orders(), top, lambda text: None)
            log = DriverLog(top, lambda: None, lambda text: None)
            attempts = Attempts(orders(), state, log)
            for number, begin in ((1, 0), (2, 0), (3, -1)):
                log.begin("job-driver-n-%d.log" % number, "id", [], stream=False)
                log.instead("job-driver-n-%d.log" % number, b"rayctl-figure n=%d\n" % number if number != 2 else b"nothing\n")
                state.change(job=dict(state.doc["job"], logBegin=begin))
                attempts.next("lost", "", None)
            log.close()
            self.assertEqual([a.get("figures") for a in state.doc["attempts"]], [{"n": 1}, None, None])


class Ray:
    """A dashboard with a log as it is now, and what its first stream gives."""

    def __init__(self, now, streamed=b""):
        self._now, self._streams = now, [streamed]

    def version(self, _timeout):
        return {"ray_version": "2.60.0"}

    def log_path(self, how, *_args, **_kwargs):
        return how

    def open(self, _method, how, _timeout):
        response = io.BytesIO(self._streams.pop() if how == "stream" and self._streams else self._now)
        response.status = 200
        return response, response


class Log(unittest.TestCase):
    def test_attempts_and_missing(self):
        with tempfile.TemporaryDirectory() as top:
            logs = os.path.join(top, "t", "session_2026", "logs")
            os.makedirs(logs)
            log = DriverLog(top, lambda: None, lambda text: None)
            for name, text in (("job-driver-x-1.log", b"a\r\n\xff"), ("job-driver-x-2.log", b"b" * 3000000)):
                with open(os.path.join(logs, name), "wb") as f:
                    f.write(text)
                log.begin(name, "id", [top], stream=False)
                log.finish(False)
            log.begin("job-driver-x-3.log", "id", [], stream=False)  # on a node that was lost
            log.finish(False)
            log.close()
            with open(os.path.join(top, "driver.log"), "rb") as f:
                self.assertEqual(f.read(), b"")
            for name, text in (("driver-1.log", b"a\r\n\xff"), ("driver-2.log", b"b" * 3000000)):
                with open(os.path.join(top, name), "rb") as f:
                    self.assertEqual(f.read(), text)
            self.assertEqual(log.document(), {"bytes": 0, "missing": [[0, -1]]})

    def test_on_its_way(self):
        """What a driver has written that was killed may still be on its way into Ray's log. If that takes too long, the output is noted as incomplete."""
        for late in False, True:
            with tempfile.TemporaryDirectory() as top:
                logs = os.path.join(top, "t", "session_2026", "logs")
                os.makedirs(logs)
                log = DriverLog(top, lambda: None, lambda text: None)
                with open(os.path.join(logs, "job-driver-x-1.log"), "ab", buffering=0) as f:
                    f.write(b"a\n")
                    fcntl.flock(f, fcntl.LOCK_EX)
                    log.begin("job-driver-x-1.log", "id", [top], stream=False)

                    def copy(_seconds):
                        f.write(b"b\n")
                        fcntl.flock(f, fcntl.LOCK_UN)

                    with unittest.mock.patch.multiple("rayctl_keeper.driver.log", COPIED=-1.0 if late else 60.0, time=unittest.mock.Mock(monotonic=time.monotonic, sleep=copy)):
                        log.finish(False, ended=True)
                log.close()
                self.assertEqual(log.document(), {"bytes": 2, "missing": [[2, -1]]} if late else {"bytes": 4, "missing": []})

    def test_truncated(self):
        """Also where the log has grown beyond its old length before the keeper looks again. What is there afterwards follows a note."""
        for later in b"", b"c\n", b"c" * 100 + b"\n":
            with tempfile.TemporaryDirectory() as top:
                logs = os.path.join(top, "t", "session_2026", "logs")
                os.makedirs(logs)
                path, log = os.path.join(logs, "job-driver-x-1.log"), DriverLog(top, lambda: None, lambda text: None)
                with open(path, "ab", buffering=0) as f:
                    f.write(b"Ray's\na\n")
                    log.begin("job-driver-x-1.log", "id", [top], stream=False)
                    log.pump()
                    f.write(b"b\n")
                    log.pump()
                    f.truncate(0)
                    f.write(later)
                    if len(later) == 2:
                        log.pump()
                        f.write(b"d\n")
                        later += b"d\n"
                    log.finish(False)
                log.close()
                with open(os.path.join(top, "driver.log"), "rb") as f:
                    self.assertEqual(f.read(), b"Ray's\na\nb\n" + TRUNCATED + later)
                self.assertEqual(log.document()["missing"], [[10, 10]])

    def test_truncated_elsewhere(self):
        """Ray gives the whole log of another host at the end. One that is shorter, and begins in the same way, is one that Ray cannot read."""
        for now, added, missing in ((b"abcd", b"d", []), (b"", b"", [[3, -1]]), (b"ab", b"", [[3, -1]]), (b"xy", TRUNCATED + b"xy", [[3, 3]]),
                                    (b"xyz1\n", TRUNCATED + b"xyz1\n", [[3, 3]])):
            with tempfile.TemporaryDirectory() as top:
                with open(os.path.join(top, "driver.log"), "wb") as f:
                    f.write(b"abc")
                log = DriverLog(top, lambda ray=Ray(now): ray, lambda text: None)
                log.begin("job-driver-x-1.log", "id", [], stream=False, resume=True)
                log.finish(True)
                log.close()
                with open(os.path.join(top, "driver.log"), "rb") as f:
                    self.assertEqual(f.read(), b"abc" + added)
                self.assertEqual(log.document()["missing"], missing)

    def test_truncated_while_streamed(self):
        """Ray's stream of a log that was truncated goes on at its old place, once the log is longer than that (seen with Ray 2.60). Nothing comes twice: neither at the end nor
        where the stream is cut and opened again."""
        old, new = b"o" * 500, b"".join(b"new line %d\n" % i for i in range(200))

        for stream in False, True:
            with tempfile.TemporaryDirectory() as top:
                ray = Ray(new, old + new[len(old):])
                log = DriverLog(top, lambda ray=ray: ray, lambda text: None)
                log.begin("job-driver-x-1.log", "id", [], stream=False)
                log._take("job-driver-x-1.log", "id", 0, stream=True)
                if stream:
                    log._take("job-driver-x-1.log", "id", log._got, stream=True)
                log.finish(True)
                log.close()
                with open(os.path.join(top, "driver.log"), "rb") as f:
                    self.assertEqual(f.read(), old + new[len(old):])
                self.assertEqual(log.document(), {"bytes": len(new), "missing": [[500, 500]]})

    def test_end_of_a_drivers_log(self):
        """Whole lines only, and nothing of what job.prepare printed before."""
        with tempfile.TemporaryDirectory() as top:
            logs = os.path.join(top, "t", "session_2026", "logs")
            os.makedirs(logs)
            for name, text in (("prepare-1", b"prepared\n"), ("1", b"first\nsecond\nthird")):
                with open(os.path.join(logs, "job-driver-x-%s.log" % name), "wb") as f:
                    f.write(text)
            log = DriverLog(top, lambda: None, lambda text: None)
            self.assertEqual(log.end(9), b"")
            log.begin("job-driver-x-prepare-1.log", "id", [top], stream=False)
            log.finish(False)
            log.goes_before("job-driver-x-prepare-1.log", "id", 9)
            log.begin("job-driver-x-1.log", "id", [top], stream=False)
            log.finish(False)
            self.assertEqual([log.end(n) for n in (99, 18, 17, 12, 5)], [b"first\nsecond\nthird"] * 2 + [b"second\nthird", b"third", b""])
            log.put_aside()
            self.assertEqual(log.end(99), b"")

    def test_driver_that_nobody_saw_run(self):
        """Its head was lost between its first line and the keeper's next look: its node's disk has the log, or else its supervisor has saved it."""
        for place in (("t", "session_2026", "logs", "job-driver-x-1.log"), ("nodes", "head", "job-driver-x-1.log.from-0"), None):
            with tempfile.TemporaryDirectory() as top:
                log, want = DriverLog(top, lambda: None, lambda text: None), b""
                if place:
                    want = b"first line\n"
                    os.makedirs(os.path.join(top, *place[:-1]))
                    with open(os.path.join(top, *place), "wb") as f:
                        f.write(want)
                log.begin_late("job-driver-x-1.log", [top])
                log.finish(False)
                log.close()
                self.assertEqual(log.document(), {"bytes": len(want), "missing": []})
                self.assertEqual(os.path.exists(os.path.join(top, "driver.log")), bool(place))


if __name__ == "__main__":
    unittest.main()
