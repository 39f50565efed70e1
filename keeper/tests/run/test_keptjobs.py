"""Jobs that were submitted to a cluster of somebody else's nodes, after its end: a keeper, and the record that reads it. Run by `go test ./keeper`."""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import HERE, Rig, record


class Kept(Rig):
    def cluster(self, grace=1):
        """A keeper whose cluster is ready, its run directory, and its state."""
        orders = {"version": 1, "name": "n", "attempt": 1, "launcher": "kuberay", "lifetime": {"lease": 60, "start": 60}, "ray": {}, "groups": [{"name": "head", "count": 1}, {"name": "w", "count": 1}],
                  "signals": {"TERM": "detach"}, "start": {"mode": "external", "dashboard": "http://127.0.0.1:%d" % self.head.server_address[1], "gcs": "h:6379"},
                  "listen": "127.0.0.1:0", "advertise": "127.0.0.1", "job": None, "grace": grace}
        run_dir = self.pod(**{"orders.json": orders, "commit": {}})
        self.head.lists = True
        process = self.keeper(run_dir, "pod-keeper")
        return process, run_dir, self.until(run_dir, "state.json", lambda d: d["phase"] == "Ready")

    def recorded(self, seen):
        """What the record leaves as its message, and the files that it prints."""
        env = dict(os.environ, RAYCTL_TERMINATION_LOG=os.path.join(self.top.name, "message"), TMPDIR=self.top.name)
        token = os.path.join(self.top.name, "token")
        with open(token, "w") as f:
            f.write("t")
        out = subprocess.run([sys.executable, "-s", "-B", os.path.dirname(HERE), "record", seen["keeper"]["url"], token], env=env, stdout=subprocess.PIPE, timeout=120, check=True).stdout
        with open(env["RAYCTL_TERMINATION_LOG"]) as f:
            message = json.load(f)
        if not out:
            return message, {}
        hint, _, packed = out.partition(b"\n")
        self.assertTrue(hint.startswith(b"#"), hint)
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed))) as files:
            return message, {f.name: files.extractfile(f).read() for f in files}

    def is_over(self, run_dir):
        """Whether the keeper has its result within a second, without the log for which it asks."""
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            if os.path.exists(os.path.join(run_dir, "result.json")):
                return True
            threading.Event().wait(0.02)
        return False

    def test_end(self):
        """Those that had ended before, and one that the end stops; also of a keeper that was killed meanwhile."""
        process, run_dir, _ = self.cluster()
        self.head.known["early"], self.head.logs["job-driver-early.log"] = record("FAILED", 3), b"first\xff\n"
        self.until_file(os.path.join(run_dir, "jobs", "early.log"), b"first\xff\n")
        self.kill(process)
        del self.head.logs["job-driver-early.log"]  # what is there is not read again
        process = self.keeper(run_dir, "pod-keeper")
        seen = self.until(run_dir, "state.json", lambda d: d["keeper"]["pid"] == process.pid and d["keeper"]["url"] and d["phase"] == "Ready")
        self.head.known["runs"], self.head.logs["job-driver-runs.log"] = record("RUNNING"), b"second\n"
        self.until(run_dir, "state.json", lambda d: [s["submissionId"] for s in d["submissions"]] == ["runs"])
        self.head.holds = lambda: self.is_over(run_dir)
        self.ask(seen, "/v1/end", {"cause": "down", "message": "enough"})
        message, files = self.recorded(seen)
        records = {r["submission_id"]: (r["status"], r["driver_exit_code"]) for r in json.loads(files.pop("submissions.json").decode())}
        self.assertEqual(records, {"early": ("FAILED", 3), "runs": ("STOPPED", None)})
        self.assertEqual(files, {"jobs/early.log": b"first\xff\n", "jobs/runs.log": b"second\n"})
        self.assertEqual((message["jobs"], message["exit"]["cause"], process.wait()), (True, "down", 0))

    def test_end_without_grace(self):
        """What a job has printed that still runs."""
        process, run_dir, seen = self.cluster(grace=0)
        self.head.known["runs"], self.head.logs["job-driver-runs.log"] = record("RUNNING"), b"so far\n"
        self.until(run_dir, "state.json", lambda d: [s["submissionId"] for s in d["submissions"]] == ["runs"])
        self.ask(seen, "/v1/end", {"cause": "down", "message": "enough"})
        _, files = self.recorded(seen)
        self.assertEqual(([r["status"] for r in json.loads(files.pop("submissions.json").decode())], files, process.wait()), (["RUNNING"], {"jobs/runs.log": b"so far\n"}, 0))

    def test_no_jobs(self):
        """The record says nothing of any."""
        process, _, seen = self.cluster()
        self.ask(seen, "/v1/end", {"cause": "down", "message": "enough"})
        message, files = self.recorded(seen)
        self.assertEqual((message.get("jobs"), files, process.wait()), (None, {}, 0))


if __name__ == "__main__":
    unittest.main()
