"""A keeper of an external cluster (KubeRay) that follows another. The head is a fake that answers the keeper's questions as Ray 2.60 does;
kuberay/successor_test.go is the same on a real one."""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
COMMIT = {"packages": [{"uri": "gcs://_ray_pkg_0.zip", "file": "package-0.zip"}],
          "runtimeEnv": {"working_dir": "gcs://_ray_pkg_0.zip", "env_vars": {"K": "V"}}}
LOG = b"first\nsecond\n"


class Head(http.server.BaseHTTPRequestHandler):
    """A head with one worker; `known` are the jobs that were submitted to it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, world = urllib.parse.urlsplit(self.path).path, self.server
        if path == "/api/version":
            self.answer({"ray_version": "2.60.0", "session_name": world.session})
        elif path == "/api/v0/nodes":
            rows = [{"node_id": "h", "state": "ALIVE", "is_head_node": True}, {"node_id": "w", "state": "ALIVE"}]
            self.answer({"data": {"result": {"result": rows if world.complete else rows[:1]}}})
        elif path.startswith("/api/jobs/"):
            job = world.known.get(path.rpartition("/")[2])
            self.answer(job or {}, 200 if job else 404)
        elif path.startswith("/api/packages/"):
            self.answer({}, 200 if world.has_package else 404)
        else:  # the log
            self.answer(LOG)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode() or "{}")
        if self.path.endswith("/stop"):
            self.server.known[self.path.split("/")[-2]] = record("STOPPED")
            self.server.stops += 1
            self.answer({})
            return
        self.server.submissions.append(body)
        self.server.known[body["submission_id"]] = record("RUNNING")
        self.answer({})

    def do_PUT(self):
        self.server.packages.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({})

    def answer(self, body, status=200):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *args):
        pass


def noted(document):
    """As a client keeps a state document: without what launcher/runstate leaves out where it is 0 or empty (omitempty)."""
    gone = {"job": ("logBegin", "prepare"), "head": ("prepared",)}
    return dict(document, **{part: {k: v for k, v in document[part].items() if v or k not in names} for part, names in gone.items()})


def record(status, code=None):
    """Ray's record of a job."""
    found = {"status": status, "driver_node_id": "h", "start_time": 1000 * (time.time() - 5), "message": "", "driver_exit_code": code}
    return dict(found, end_time=1000 * time.time()) if code is not None else found


class Successor(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.head = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Head)
        self.head.daemon_threads = True
        self.head.known, self.head.submissions, self.head.session, self.head.complete = {}, [], "session_1", True
        self.head.stops, self.head.has_package, self.head.packages = 0, True, []
        self.lease = 60
        threading.Thread(target=self.head.serve_forever, daemon=True).start()
        self.addCleanup(self.head.server_close)
        self.addCleanup(self.head.shutdown)
        self.pods = 0

    def pod(self, **files):
        """The run directory of a pod, with the files that the Secret has."""
        self.pods += 1
        run_dir = os.path.join(self.top.name, "pod-%d" % self.pods)
        os.mkdir(run_dir)
        orders = {"version": 1, "name": "n", "attempt": 1, "launcher": "kuberay", "lifetime": {"lease": self.lease, "start": 60}, "ray": {},
                  "groups": [{"name": "head", "count": 1}, {"name": "w", "count": 1}], "signals": {"TERM": "detach"},
                  "start": {"mode": "external", "dashboard": "http://127.0.0.1:%d" % self.head.server_address[1], "gcs": "h:6379"},
                  "listen": "127.0.0.1:0", "advertise": "127.0.0.1",
                  "job": {"entrypoint": "python x.py", "submissionPrefix": "n", "grace": 1, "restarts": {"driver": 1}}}
        for name, content in dict({"orders.json": orders, "token": "t"}, **files).items():
            with open(os.path.join(run_dir, name), "w") as f:
                f.write(content if isinstance(content, str) else json.dumps(content))
        return run_dir

    def keeper(self, run_dir):
        """A keeper's process; it does not outlive the test."""
        process = subprocess.Popen([sys.executable, "-E", "-s", "-B", os.path.dirname(HERE), "keeper", run_dir],
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def until(self, run_dir, name, condition):
        """The document of that name, once the condition holds of it."""
        end = time.monotonic() + 60
        document = None
        while time.monotonic() < end:
            try:
                with open(os.path.join(run_dir, name)) as f:
                    document = json.load(f)
                if condition(document):
                    return document
            except (OSError, ValueError):
                pass
            time.sleep(0.02)
        self.fail("%s: %s" % (name, document))

    def running(self, run_dir):
        """A keeper whose driver runs."""
        process = self.keeper(run_dir)
        return process, self.until(run_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")

    def ended(self, run_dir):
        """The result, once there is one."""
        return self.until(run_dir, "result.json", lambda d: True)

    def kill(self, process):
        process.kill()
        process.wait()

    def test_without_files_of_its_own(self):
        """A pod has what the Secret has: the commit, with packages and runtime environment."""
        first, _ = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        second = self.pod(commit=COMMIT)
        self.running(second)
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        self.assertEqual(self.ended(second)["exit"]["cause"], "succeeded")
        self.assertEqual(len(self.head.submissions), 1)

    def test_commit_that_comes_later(self):
        """A job on the head was committed. A keeper without the document takes it from the client, and uses it for the next attempt."""
        first, _ = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        run_dir = self.pod()
        second, _ = self.running(run_dir)
        with open(os.path.join(run_dir, "commit"), "w") as f:
            json.dump(COMMIT, f)
        self.head.known["n-1"] = record("FAILED", 3)
        self.until(run_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        self.assertEqual(self.head.submissions[1]["runtime_env"]["working_dir"], "gcs://_ray_pkg_0.zip")
        self.kill(second)

    def test_container_restarted(self):
        """The run directory has everything: the timeline goes on, and the output is there once."""
        run_dir = self.pod(commit=COMMIT)
        first, before = self.running(run_dir)
        self.until_file(os.path.join(run_dir, "driver.log"), LOG)
        self.kill(first)
        second = self.keeper(run_dir)
        self.until(run_dir, "state.json", resumed)
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        result = self.ended(run_dir)
        second.wait()
        self.goes_on(before, result)
        self.assertEqual(result["log"], {"bytes": len(LOG), "missing": []})
        with open(os.path.join(run_dir, "driver.log"), "rb") as f:
            self.assertEqual(f.read(), LOG)

    def test_other_pod(self):
        """The directory has what clients noted: the state document, without nodes."""
        first, before = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": dict(noted(before), nodes=None)})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", lambda d: resumed(d) and d["nodes"])
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        result = self.ended(run_dir)
        self.goes_on(before, result)
        self.assertEqual((result["log"]["bytes"], result["exit"]["cause"]), (len(LOG), "succeeded"))

    def goes_on(self, before, result):
        """The timeline begins with what it was, and nothing in it happens twice."""
        self.assertEqual(result["timeline"][:len(before["timeline"])], before["timeline"])
        events = [(e["event"], e["to"]) for e in result["timeline"]]
        self.assertEqual(len(events), len(set(events)), events)
        self.assertEqual((len(self.head.submissions), len(result["attempts"])), (1, 1))

    def test_before_the_gang(self):
        """The time of admission, and since when it was waited, stay."""
        self.head.complete = False
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["phase"] == "Starting" and d["committed"])
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": noted(before)})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", resumed)
        self.head.complete = True
        self.until(run_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        self.goes_on(before, self.ended(run_dir))

    def test_package_lost_with_the_pod(self):
        """Before the submission only the keeper's pod has the packages. Its next one waits for a client that has them, for as long as for a commit."""
        self.head.has_package, self.lease = False, 1
        run_dir = self.pod(commit=COMMIT)
        self.keeper(run_dir)
        end = self.ended(run_dir)["exit"]
        self.assertEqual((end["cause"], end["code"], end["retryable"], len(self.head.submissions)), ("lost", 76, True, 0))
        self.assertIn("was lost with the keeper", end["message"])

    def test_package_given_again(self):
        """It shows which packages it misses as soon as it follows another keeper, and goes on when they are there."""
        self.head.has_package, self.head.complete = False, False
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["phase"] == "Starting" and d["committed"])
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": before})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", lambda d: d.get("missingPackages") == ["package-0.zip"])
        self.head.complete = True
        self.until(run_dir, "state.json", lambda d: d["reason"]["code"] == "PackageMissing")
        with open(os.path.join(run_dir, "package-0.zip"), "wb") as f:
            f.write(b"zipped")
        running = self.until(run_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")
        self.assertEqual((running["missingPackages"], running["reason"]["code"], self.head.packages), ([], "", [b"zipped"]))

    def test_head_without_a_node(self):
        """Time counts as queued until the head's name has an address, which its pod has from its node: nothing is charged before."""
        run_dir = self.pod(commit=COMMIT)
        with open(os.path.join(run_dir, "orders.json")) as f:
            orders = json.load(f)
        for url, phase in (("http://no-such-name.invalid:8265", "Queued"), ("http://127.0.0.1:1", "Provisioning")):
            run_dir = self.pod(commit=COMMIT, **{"orders.json": dict(orders, start=dict(orders["start"], dashboard=url))})
            keeper = self.keeper(run_dir)
            self.until(run_dir, "state.json", lambda d: d["phase"] == phase and d["committed"])
            self.kill(keeper)

    def test_while_it_ends(self):
        """An end that somebody has asked for stays one, also if the driver has not been submitted yet or is being stopped."""
        for job, submissions in ((False, 0), (True, 1)):
            with self.subTest(running=job):
                self.head.known.clear()
                self.head.submissions.clear()
                self.head.complete = job
                first_dir = self.pod(commit=COMMIT)
                first = self.keeper(first_dir)
                before = self.until(first_dir, "state.json", lambda d: d["committed"] and (not job or d["job"]["state"] == "RUNNING"))
                self.kill(first)
                ending = dict(before, phase="Draining", reason={"code": "down", "message": "somebody ended it"})
                second = self.pod(commit=COMMIT, **{"state.json": ending})
                self.head.complete = True
                self.keeper(second)
                result = self.ended(second)
                self.assertEqual((result["exit"]["cause"], result["exit"]["message"], len(self.head.submissions)), ("down", "somebody ended it", submissions))
                self.assertEqual(self.head.stops, submissions, "a running driver gets its grace")

    def test_driver_ended_with_the_keeper(self):
        """The driver's exit code was known already; the head need not be asked for it again."""
        first, before = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        ending = dict(before, phase="Draining", reason={"code": "driver-signaled", "message": "the driver was ended by SIGTERM"},
                      job=dict(before["job"], state="FAILED", exitCode=143, signal=15))
        self.head.known.clear()
        run_dir = self.pod(commit=COMMIT, **{"state.json": ending})
        self.keeper(run_dir)
        result = self.ended(run_dir)
        self.assertEqual((result["exit"]["origin"], result["exit"]["code"], result["exit"]["signal"]), ("driver", 143, 15))

    def test_restarts_are_counted_on(self):
        """The second attempt is the last one for the next keeper, too, and it has the output of the first."""
        first_dir = self.pod(commit=COMMIT)
        first, _ = self.running(first_dir)
        self.head.known["n-1"] = record("FAILED", 3)
        before = self.until(first_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": before})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", resumed)
        self.head.known["n-2"] = record("FAILED", 4)
        result = self.ended(run_dir)
        self.assertEqual([(a["attempt"], a["exitCode"]) for a in result["attempts"]], [(1, 3), (2, 4)])
        self.assertEqual((result["exit"]["code"], len(self.head.submissions)), (4, 2))
        with open(os.path.join(run_dir, "driver-1.log"), "rb") as f:
            self.assertEqual(f.read(), LOG)

    def test_another_head(self):
        """A head that was lost with the keeper: the driver is not run twice."""
        first, before = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        self.head.known.clear()
        self.head.session = "session_2"
        run_dir = self.pod(commit=COMMIT, **{"state.json": before})
        self.keeper(run_dir)
        result = self.ended(run_dir)
        self.assertEqual((result["exit"]["cause"], len(self.head.submissions)), ("lost", 1))
        self.assertIn("the head was restarted", result["exit"]["message"])

    def preparing(self, **files):
        """A pod whose job has job.prepare."""
        run_dir = self.pod(commit=COMMIT, **files)
        path = os.path.join(run_dir, "orders.json")
        with open(path) as f:
            orders = json.load(f)
        orders["job"]["prepare"] = "python load.py"
        with open(path, "w") as f:
            json.dump(orders, f)
        return run_dir

    def submitted(self):
        return [body["submission_id"] for body in self.head.submissions]

    def test_prepare_is_followed(self):
        """Keepers in pods of their own: what one has submitted the next one follows, and the log has the output of both programs."""
        first_dir = self.preparing()
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["job"]["prepare"]["state"] == "RUNNING")
        self.assertEqual((before["job"]["state"], before["reason"]["code"]), ("WAITING", "Preparing"))
        self.kill(first)
        second_dir = self.preparing(**{"state.json": before})
        second = self.keeper(second_dir)
        self.until(second_dir, "state.json", resumed)
        self.assertEqual(self.submitted(), ["n-prepare-1"])
        self.head.known["n-prepare-1"] = record("SUCCEEDED", 0)
        before = self.until(second_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")
        self.assertEqual((before["job"]["logBegin"], before["head"]["prepared"]), (len(LOG), True))
        self.until_file(os.path.join(second_dir, "driver.log"), LOG + LOG)
        self.kill(second)
        third_dir = self.preparing(**{"state.json": before})
        self.keeper(third_dir)
        self.until(third_dir, "state.json", resumed)
        self.head.known["n-1"] = record("FAILED", 3)
        self.until(third_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        self.head.known["n-2"] = record("SUCCEEDED", 0)
        result = self.ended(third_dir)
        self.assertEqual(self.submitted(), ["n-prepare-1", "n-1", "n-2"])
        self.assertEqual([(a["attempt"], a.get("logBegin")) for a in result["attempts"]], [(1, len(LOG)), (2, None)])
        for name, content in (("driver-1.log", LOG + LOG), ("driver.log", LOG)):
            self.until_file(os.path.join(third_dir, name), content)

    def test_prepare_that_failed_with_the_keeper(self):
        """Its exit code is the run's, also where the keeper was killed while it ended the cluster."""
        first_dir = self.preparing()
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["job"]["prepare"]["state"] == "RUNNING")
        self.kill(first)
        ending = dict(before, phase="Draining", reason={"code": "prepare-failed", "message": "job.prepare exited with code 9"})
        ending["job"]["prepare"].update(state="FAILED", exitCode=9)
        run_dir = self.preparing(**{"state.json": ending})
        self.keeper(run_dir)
        end = self.ended(run_dir)["exit"]
        self.assertEqual((end["origin"], end["cause"], end["code"], self.submitted()), ("prepare", "prepare-failed", 9, ["n-prepare-1"]))

    def test_prepare_without_a_state(self):
        """Only the head knows what was submitted: job.prepare is followed, and not run beside a driver."""
        for known in ("n-prepare-1", "n-1"):
            with self.subTest(known):
                self.head.submissions.clear()
                self.head.known.clear()
                self.head.known[known] = record("RUNNING")
                run_dir = self.preparing()
                keeper = self.keeper(run_dir)
                self.until(run_dir, "state.json", lambda d: "RUNNING" in (d["job"]["state"], d["job"]["prepare"]["state"]))
                self.assertEqual(self.submitted(), [])
                self.kill(keeper)

    def until_file(self, path, content):
        """Waits until a file has that content."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if os.path.exists(path):
                with open(path, "rb") as f:
                    if f.read() == content:
                        return
            time.sleep(0.02)
        self.fail(path)


def resumed(document):
    """Whether a state document is of a keeper that follows another."""
    return any(e["event"] == "keeper" for e in document["timeline"])


if __name__ == "__main__":
    unittest.main()
