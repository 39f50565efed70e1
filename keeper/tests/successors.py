"""A head that answers a keeper's questions as Ray 2.60 does, and keepers of it, one after the other; kuberay/keeperlost_test.go is the same on a real one."""

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
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
COMMIT = {"packages": [{"uri": "gcs://_ray_pkg_0.zip", "file": "package-0.zip"}],
          "runtimeEnv": {"working_dir": "gcs://_ray_pkg_0.zip", "env_vars": {"K": "V"}}}
LOG = b"first\nsecond\n"


class Head(http.server.BaseHTTPRequestHandler):
    """A head with one worker; `known` are the jobs that were submitted to it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, world = urllib.parse.urlsplit(self.path).path, self.server
        world.asked += 1
        if world.away:
            self.close_connection = True
            return
        if path == "/api/version":
            self.answer({"ray_version": "2.60.0", "session_name": world.session})
        elif path == "/api/v0/nodes":
            rows = [{"node_id": "h", "state": "ALIVE", "is_head_node": True}] + (world.workers if world.complete else [])
            self.answer({"data": {"result": {"result": rows}}})
        elif path == "/api/jobs/" and world.lists:
            self.answer([dict(job, submission_id=name) for name, job in world.known.items()])
        elif path.startswith("/api/jobs/"):
            job = world.known.get(path.rpartition("/")[2])
            self.answer(job or {}, 200 if job else 404)
        elif path.startswith("/api/packages/"):
            self.answer({}, 200 if world.has_package else 404)
        elif world.holds and world.holds():
            self.answer({}, 500)
        else:  # the log
            self.answer(world.logs.get(urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("filename", [""])[0], world.log))

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


class Rig(unittest.TestCase):
    """Keepers, one after the other, of one head."""

    start = {}  # orders that differ
    job = {}
    restarts = {"driver": 1}
    lifetime = {}

    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.head = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Head)
        self.head.daemon_threads = True
        self.head.known, self.head.submissions, self.head.session, self.head.complete = {}, [], "session_1", True
        self.head.workers = [{"node_id": "w", "state": "ALIVE"}]
        self.head.away = False  # the head has no pod
        self.head.asked = 0
        self.head.lists, self.head.logs = False, {}  # whether it lists its jobs, and their logs by name; of the others it is `log`
        self.head.holds = None  # called before it gives a log; where it returns true, no log is given
        self.head.log, self.head.stops, self.head.has_package, self.head.packages = LOG, 0, True, []
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
        orders = {"version": 1, "name": "n", "attempt": 1, "launcher": "kuberay", "lifetime": dict({"start": 60}, lease=self.lease, **self.lifetime), "ray": {},
                  "groups": [{"name": "head", "count": 1}, {"name": "w", "count": 1}], "signals": {"TERM": "detach"},
                  "start": dict(self.start, mode="external", dashboard="http://127.0.0.1:%d" % self.head.server_address[1], gcs="h:6379"),
                  "listen": "127.0.0.1:0", "advertise": "127.0.0.1",
                  "job": dict(self.job, entrypoint="python x.py", submissionPrefix="n", grace=1, restarts=self.restarts)}
        for name, content in dict({"orders.json": orders, "token": "t"}, **files).items():
            with open(os.path.join(run_dir, name), "w") as f:
                f.write(content if isinstance(content, str) else json.dumps(content))
        return run_dir

    def keeper(self, run_dir, role="keeper", before=()):
        """A keeper's process; it does not outlive the test."""
        process = subprocess.Popen(list(before) + [sys.executable, "-E", "-s", "-B", os.path.dirname(HERE), role, run_dir],
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, document, path, body):
        """A request to the keeper of a state document."""
        request = urllib.request.Request(document["keeper"]["url"] + path, json.dumps(body).encode(), {"Authorization": "Bearer t"})
        urllib.request.urlopen(request, timeout=10).close()

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
