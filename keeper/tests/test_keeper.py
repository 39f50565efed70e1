"""The parts of the keeper that need no Ray. Run by `go test ./keeper` with every Python that the machine has."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import rayjob
from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.host import ports, process
from rayctl_keeper.node import members, nodelogs, raystart, supervisor
from rayctl_keeper.ray import dashboard
from rayctl_keeper.run import nodes
from rayctl_keeper.run.gang import Gang
from rayctl_keeper.run.head import Head
from rayctl_keeper.run.job import Job
from rayctl_keeper.run.limits import Limits
from rayctl_keeper.run.resume import Resumption
from rayctl_keeper.run.silence import Silence
from rayctl_keeper.run.waiting import Waiting
from rayctl_keeper.state import exits, model
from rayctl_keeper.state.document import State, wall
from rayctl_keeper.state.exits import AttemptLost, End

HOSTILE = "a b'c\"d $(touch /tmp/x) `id` \\ ;& \u00e9\nsecond line"


def orders(**more):
    return dict({"version": 1, "name": "n", "attempt": 1, "launcher": "local", "lifetime": {},
                 "ray": {"python": "/opt/venv/bin/python", "tempRoot": "/tmp"},
                 "groups": [{"name": "head", "count": 1, "cpus": 0}, {"name": "w", "count": 2, "gpus": 1, "resources": {"a": 1}}],
                 "job": {"entrypoint": "python x.py", "submissionPrefix": "n", "grace": 2.5}}, **more)


class Ports(unittest.TestCase):
    @unittest.skipUnless(sys.platform.startswith("linux"), "claims are abstract sockets")
    def test_chosen_by_one_process_only(self):
        few = range(ports.PORTS.start, ports.PORTS.start + 400)
        choose = "import sys; from rayctl_keeper.host import ports as p; p.PORTS = range(%d, %d); print(*p.free_ports('', 380), flush=True); sys.stdin.read()"
        other = subprocess.Popen([sys.executable, "-c", choose % (few.start, few.stop)], cwd=os.path.dirname(HERE),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with other, unittest.mock.patch.object(ports, "PORTS", few):
            theirs = {int(port) for port in other.stdout.readline().split()}
            ours = ports.free_ports("127.0.0.1", 3)
            self.assertFalse(theirs & set(ours + ports.free_ports("", 4)))
            with self.assertRaises(OSError):
                ports.free_ports("", 14)
            other.stdin.close()
            other.wait()
            self.assertEqual(len(ports.free_ports("", 14)), 14)


class Chosen(unittest.TestCase):
    def test_a_port_of_loopback(self):
        port = ports.choose("127.0.0.1", 0)
        self.assertIn(port, ports.PORTS)
        self.assertEqual(ports.choose("localhost", port), port)

    def test_a_port_that_is_shared_is_taken(self):
        with socket.socket() as other:
            if hasattr(socket, "SO_REUSEPORT"):
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            other.bind(("127.0.0.1", 0))
            other.listen(1)
            with self.assertRaises(OSError):
                ports.choose("127.0.0.1", other.getsockname()[1])


class Exits(unittest.TestCase):
    def test_codes(self):
        for raw, code, number in ((0, 0, None), (3, 3, None), (255, 255, None), (-15, 143, 15), (137, 137, 9), (139, 139, 11), (128, 128, None)):
            self.assertEqual(exits.shell_code(raw), (code, number))

    def test_signals(self):
        """The sentence begins as the client knows it, and says who sends such a signal."""
        waits = Waiting(orders(signals={"INT": "preempted"}), *[None] * 9)
        for number, cause, why in ((signal.SIGTERM, "interrupted", "somebody cancelled it"), (signal.SIGUSR1, "time-limit", "time limit"), (signal.SIGINT, "preempted", "SIGINT")):
            end = waits.signalled(number)
            self.assertEqual(end.cause, cause)
            self.assertTrue(end.message.startswith(model.SIGNALLED) and why in end.message, end.message)

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
        self.assertEqual(dashboard.telling_line(b"Traceback:\nTimeoutError: no answer\n.\n"), "TimeoutError: no answer")
        with self.assertRaises(AttemptLost):
            end(status="FAILED", message="Job supervisor actor died: node dead", error_type="JOB_SUPERVISOR_ACTOR_DIED")

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
        def keeper(earlier):
            limits = Limits({"queue": 50, "max": 60, "total": 100}, time.monotonic())
            Resumption(earlier, "", limits, None, None, None).resume_limits()
            return limits
        ago = wall(time.time() - 20)
        first, waiting = keeper({}), keeper({"phase": "Provisioning", "since": ago, "deadlines": {"max": None, "idle": None, "total": None}})
        running = keeper({"phase": "Ready", "since": ago, "deadlines": {"max": wall(time.time() + 7), "idle": ago, "total": None}})
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


class Submission(unittest.TestCase):
    def test_gpus_are_divided_on_one_machine(self):
        o = orders()
        def visible(index, base=None):
            return raystart.environment(o, members.members(o)[index], "/tmp/r", "/run", {}, base or {}).get("CUDA_VISIBLE_DEVICES")
        self.assertEqual([visible(i) for i in range(3)], [None, "0", "1"])
        self.assertEqual([visible(i, {"CUDA_VISIBLE_DEVICES": "3,GPU-5"}) for i in range(3)], ["3,GPU-5", "3", "GPU-5"])
        self.assertEqual(visible(2, {"CUDA_VISIBLE_DEVICES": "3"}), "3")
        o["launcher"] = "slurm"
        self.assertEqual(visible(2), None)

    def test_environment(self):
        o = orders()
        o["job"].update(env={"K": HOSTILE, "RAYCTL_RUN": "mine"}, cwd="/dir with 'quotes'", entrypointNumCpus=2)
        body = rayjob.submission(o, {"runtimeEnv": {"env_vars": {"K": "other", "L": "1"}, "pip": ["x"]}}, 3, "lost", None)
        env = body["runtime_env"]["env_vars"]
        self.assertEqual((env["K"], env["L"], env["RAYCTL_RUN"], env["RAYCTL_ATTEMPT"], env["RAYCTL_RESTART_REASON"]),
                         (HOSTILE, "1", "n", "3", "lost"))
        self.assertEqual((body["submission_id"], body["entrypoint_num_cpus"], body["runtime_env"]["pip"]), ("n-3", 2, ["x"]))
        with tempfile.TemporaryDirectory() as top:
            odd = os.path.join(top, "a 'b' $(c)\nd")
            os.mkdir(odd)
            text = rayjob.in_directory(odd, "pwd -P; exit 3")
            ran = subprocess.run(text, shell=True, stdout=subprocess.PIPE, check=False)
            self.assertEqual((ran.returncode, ran.stdout.decode()), (3, os.path.realpath(odd) + "\n"))

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
            rayjob.submit(ray, {"submission_id": "x"}, silence, lambda _: None)
            self.assertEqual(ray.posts, posts)
        away = dashboard.Refused(500, "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.1:52365")
        ray = Ray([(False, away), (False, away), (False, away), (True, None)])
        rayjob.submit(ray, {"submission_id": "x"}, silence, lambda _: None)
        self.assertEqual(ray.posts, 4)
        with self.assertRaises(End):
            rayjob.submit(Ray([(False, refused), (False, refused)]), {"submission_id": "x"}, silence, lambda _: None)
        with self.assertRaises(End):
            rayjob.submit(Ray([(False, dashboard.Refused(400, "bad"))]), {"submission_id": "x"}, silence, lambda _: None)

    def test_a_silent_head_is_asked_again_before_it_gets_the_job(self):
        state = unittest.mock.Mock(doc={"attempt": 1, "job": {"state": "WAITING"}})
        nodes, driver = unittest.mock.Mock(gcs=""), unittest.mock.Mock(ended=False, runs=False)
        head = Head({}, "", nodes, None, driver, unittest.mock.Mock(), state)
        head.dashboard = unittest.mock.Mock(answered=0.0)
        head.dashboard.job.side_effect = [dashboard.Slow("timed out"), dashboard.Slow("timed out"), {"status": "RUNNING"}]
        Job("/nonexistent", head, driver, None, None, unittest.mock.Mock(), state, None).submit({"submission_id": "n-1"})
        self.assertEqual(head.dashboard.job.call_count, 3)
        head.dashboard.submit.assert_not_called()


class RayStart(unittest.TestCase):
    BASE = {"RAYCTL_GCS": "10.0.0.1:1234", "RAYCTL_DASHBOARD": "10.0.0.1:2", "RAYCTL_CLIENT_PORT": "3", "RAYCTL_NODE_IP": "10.0.0.1"}

    def test_environment(self):
        o = orders()
        o["ray"]["env"] = {"A": "ray", "B": HOSTILE}
        o["groups"][1]["env"] = {"A": "group"}
        base = dict(self.BASE, RAY_ADDRESS="x", SLURM_JOB_ID="1", SLURM_CONF="c", PMIX_RANK="0", OMPI_X="1", RAYCTL_PROFILE="p",
                    RAY_AUTH_TOKEN="t", RAY_JOB_CONFIG_JSON_ENV_VAR="{}", RAY_memory_usage_threshold="1", PATH="/bin", CUDA_VISIBLE_DEVICES="0")
        env = raystart.environment(o, members.members(o)[1], "/tmp/r1", "/run", {"S": "secret"}, base)
        for gone in ("RAY_ADDRESS", "SLURM_JOB_ID", "PMIX_RANK", "OMPI_X", "RAYCTL_PROFILE", "RAY_AUTH_TOKEN", "RAY_JOB_CONFIG_JSON_ENV_VAR"):
            self.assertNotIn(gone, env)
        self.assertEqual((env["A"], env["B"], env["S"], env["SLURM_CONF"], env["CUDA_VISIBLE_DEVICES"], env["RAY_memory_usage_threshold"]),
                         ("group", HOSTILE, "secret", "c", "0", "1"))
        self.assertEqual((env["RAY_AUTH_MODE"], env["RAY_AUTH_TOKEN_PATH"], env["RAY_JOB_STOP_WAIT_TIME_S"]), ("token", "/run/token", "3"))
        self.assertEqual(env["RAY_prestart_worker_first_driver"], "0")
        self.assertTrue(env["PATH"].startswith("/opt/venv/bin:"))

    def test_arguments(self):
        o, ports = orders(), {"dashboard-agent-listen-port": 1, "worker-port-list": "7,8"}
        head = raystart.arguments(o, members.members(o)[0], "/tmp/r1", "/run", self.BASE, ports)
        self.assertEqual(head[:4], ["/opt/venv/bin/python", os.path.dirname(HERE), "ray", "start"])
        for wanted in ("--head", "--port=1234", "--num-cpus=0", "--dashboard-agent-listen-port=1", "--worker-port-list=7,8", "--node-ip-address=10.0.0.1", "--node-name=head-0", "--labels=rayctl.io/group=head"):
            self.assertIn(wanted, head)
        base = dict(self.BASE, SLURM_JOB_ID="1", SLURM_CPUS_ON_NODE="6", SLURM_GPUS_ON_NODE="")
        worker = raystart.arguments(o, members.members(o)[2], "/tmp/r1", "/run", base, ports)
        for wanted in ("--address=10.0.0.1:1234", "--num-cpus=6", "--num-gpus=1", '--resources={"a": 1}', "--node-name=w-1"):
            self.assertIn(wanted, worker)
        o["groups"][1].update(objectSpillingDirectory="/disk/a b", objectStoreMemory=100, labels={"zone": "a", "b": "c"})
        worker = raystart.arguments(o, members.members(o)[2], "/tmp/r1", "/run", base, ports)
        for wanted in ("--object-spilling-directory=/disk/a b/r1", "--object-store-memory=100", "--labels=b=c,rayctl.io/group=w,zone=a"):
            self.assertIn(wanted, worker)
        self.assertFalse(raystart.is_recent("2.40.0"))
        self.assertTrue(raystart.is_recent("2.49.1") and raystart.is_recent(""))
        with self.assertRaises(IndexError):
            members.members(o)[3]

    def test_addresses(self):
        asked = []
        def own(network, several):
            asked.append((network, several))
            return "10.1.1.1"
        with unittest.mock.patch.object(nodes.address, "own", own):
            o = nodes.with_addresses({"advertise": "auto", "listen": "auto:0", "network": "ib0", "groups": [{"name": "head", "count": 1}]})
            self.assertEqual((o["advertise"], o["dashboardHost"], o["listen"]), ("10.1.1.1", "10.1.1.1", "10.1.1.1:0"))
            nodes.with_addresses(dict(orders(), advertise="auto", dashboardHost="127.0.0.1"))
            nodes.with_addresses({"advertise": "auto", "dashboardHost": "127.0.0.1", "groups": [{"name": "head", "count": 1}]})
        self.assertEqual(asked, [("ib0", True), ("", True), ("", False)])  # others are to reach it: clients, or nodes

    def test_last_line(self):
        with tempfile.NamedTemporaryFile("w") as f:
            for text, wanted in (("a\n\x1b[31mValueError: bad\x1b[0m\nsee the docs\n", "ValueError: bad"), ("a\nb\n\n", "b"), ("", ""),
                                 ("x\n\x1b[1mgcs_server\x1b[0m [exit code=-9]\nRemaining", "its gcs_server ended with exit code -9")):
                f.seek(0)
                f.truncate()
                f.write(text)
                f.flush()
                self.assertEqual(nodelogs.last_line(f.name), wanted)


class GangAndState(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.state = State(orders(), self.dir.name, lambda text: None)

    def test_revisions(self):
        self.state.phase("Starting", "X", "y")
        before = self.state.doc["revision"]
        self.state.phase("Starting", "X", "y")
        self.assertEqual(self.state.doc["revision"], before)
        seen = []
        waiter = threading.Thread(target=lambda: seen.append(json.loads(self.state.wait(before, 30, "a client").decode())))
        waiter.start()
        self.state.note("job", "RUNNING")
        waiter.join()
        self.assertGreater(seen[0]["revision"], before)
        self.state.final(os.path.join(self.dir.name, "result.json"), End("max", "over").document(), {"bytes": 0, "missing": []})
        with open(os.path.join(self.dir.name, "result.json")) as f:
            self.assertEqual(json.load(f)["exit"]["code"], 124)

    def test_the_end_is_told_to_who_is_between_two_requests(self):
        for comes_back in (lambda: self.state.wait(revision, 30, "a client"), lambda: self.state.left("a client")):
            self.setUp()
            revision = json.loads(self.state.wait(-1, 30, "a client").decode())["revision"]
            self.state.final(os.path.join(self.dir.name, "result.json"), End("max", "over").document(), {"bytes": 0, "missing": []})
            drained = threading.Thread(target=self.state.drain, args=(60,))
            drained.start()
            drained.join(0.05)
            self.assertTrue(drained.is_alive())
            comes_back()
            drained.join(30)
            self.assertFalse(drained.is_alive())

    def test_a_handover_waits_for_who_has_the_last_document(self):
        """They may ask whether it is recorded."""
        self.state.handed_over = True
        self.state.final(os.path.join(self.dir.name, "result.json"), End("max", "over").document(), {"bytes": 0, "missing": []})
        self.state.wait(-1, 30, "a client")
        drained = threading.Thread(target=self.state.drain, args=(60,))
        drained.start()
        drained.join(0.05)
        self.assertTrue(drained.is_alive())
        self.state.left("a client")
        drained.join(30)
        self.assertFalse(drained.is_alive())

    def test_by_name(self):
        class Nodes:
            external, extra = False, {}
            all = staticmethod(lambda: members.members(orders()))
            report = staticmethod(lambda m: {"state": "retrying", "message": "gave up", "pid": 7} if m.name == "w-0" else {})
            pid_of = staticmethod(lambda m: 0)
        gang = Gang(orders(), Nodes, self.state)
        rows = [{"node_name": "head-0", "node_id": "a", "state": "ALIVE", "is_head_node": True},
                {"node_name": "w-0", "node_id": "b", "state": "DEAD"}, {"node_name": "w-1", "node_id": "c", "state": "ALIVE"}]
        self.assertFalse(gang.count(rows))
        self.assertEqual([n["state"] for n in self.state.doc["nodes"]], ["ALIVE", "STARTING", "ALIVE"])
        self.assertEqual(self.state.doc["reason"]["message"], "2 of 3 nodes are alive")
        rows.append({"node_name": "w-0", "node_id": "d", "state": "ALIVE"})
        self.assertTrue(gang.count(rows))
        with self.assertRaises(AttemptLost):
            gang.session = "one"
            gang.same_head({"session_name": "two"})

    def test_by_label(self):
        class Nodes:
            external, extra = True, {}
        gang = Gang(orders(), Nodes, self.state)
        rows = [{"node_id": "a", "state": "ALIVE", "is_head_node": True}, {"node_id": "b", "state": "ALIVE", "labels": {"ray.io/node-group": "w"}},
                {"node_id": "c", "state": "ALIVE"}]
        self.assertTrue(gang.count(rows))

    def test_nodes_of_a_group_of_which_none_must_be_there(self):
        class Nodes:
            external, extra = True, {}
        told = orders()
        told["groups"].insert(1, {"name": "elastic", "count": 0})
        for unlabelled, complete in (({}, True), ({"labels": {"ray.io/node-group": "elastic"}}, False)):
            gang = Gang(told, Nodes, State(told, self.dir.name, lambda text: None))
            rows = [{"node_id": "a", "state": "ALIVE", "is_head_node": True}] + [dict(unlabelled, node_id=n, state="ALIVE") for n in "bc"]
            self.assertEqual(gang.count(rows), complete)


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


class Processes(unittest.TestCase):
    def test_nothing_escapes(self):
        code = """if True:
            import os, subprocess, sys
            sys.path.insert(0, %r)
            from rayctl_keeper.host import process as p
            p.become_subreaper()
            env = dict(os.environ, MARK="here")
            subprocess.Popen(["sh", "-c", "(setsid sleep 1000 & ) ; exec sleep 1000"], env=env, start_new_session=True)
            while len(p.marked(b"MARK=here")) < 2: pass
            left, ended = p.kill_all([b"MARK=here"])
            print(sorted(left), len(p.marked(b"MARK=here")), sorted(ended.values()))
            """ % os.path.dirname(HERE)
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertTrue(out.startswith("[] 0 [-9"), out)

    def test_another_cluster_stays(self):
        """The keeper of a cluster that a driver launched has that cluster's mark, and what is below it may have none."""
        code = """if True:
            import os, subprocess, sys
            sys.path.insert(0, %r)
            from rayctl_keeper.host import process as p
            p.become_subreaper()
            os.environ["RAYCTL_MARK"] = "ours"
            others = subprocess.Popen(["sh", "-c", "env -u RAYCTL_MARK sleep 1000; :"], env=dict(os.environ, RAYCTL_MARK="others"), start_new_session=True)
            ours = subprocess.Popen(["sh", "-c", "sleep 1000; :"], env=dict(os.environ, RAYCTL_MARK="ours"), start_new_session=True)
            tree = lambda: {pid: parent for pid, (parent, _) in p.process_table().items()}
            while not {others.pid, ours.pid} <= set(tree().values()) or not p.of_another_cluster(others.pid): pass
            left, ended = p.kill_all()
            lives = others.pid in tree() and others.pid in tree().values()
            os.killpg(others.pid, 9)
            print(sorted(left), ours.pid in ended and others.pid not in ended, lives)
            """ % os.path.dirname(HERE)
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(out, "[] True True\n")

    def test_bell(self):
        bell = process.Bell()
        threading.Thread(target=bell.ring).start()
        self.assertEqual(bell.wait(30), [])
        begin = time.monotonic()
        bell.wait(0.01)
        self.assertGreaterEqual(time.monotonic() - begin, 0.009)

    def test_wall(self):
        self.assertEqual(wall(0.5), "1970-01-01T00:00:00.500Z")


if __name__ == "__main__":
    unittest.main()
