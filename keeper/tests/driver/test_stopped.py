"""If a driver was killed after its grace, the message of the end has that cause. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import killed, rayjob
from rayctl_keeper.node.files import nodedir
from rayctl_keeper.ray import dashboard

KILLED = b"Attempt to gracefully terminate job a-1 through SIGTERM has timed out after 3 seconds. Job is now being force-killed with SIGKILL.\n"
INFO = {"status": "STOPPED", "submission_id": "a-1", "driver_node_id": "n"}


class Dashboard:
    """The head's dashboard, for a keeper on another host."""

    def __init__(self, log):
        self.log = log

    def log_path(self, kind, node_id, filename, **query):
        return node_id + "/" + filename

    def request(self, method, path, timeout):
        if self.log is None:
            raise dashboard.Unreachable("it does not answer")
        return self.log if path == "n/jobs/supervisor-a-1.log" else b""


def said(info, directories, answers):
    return killed.tell(rayjob.outcome(info), info, directories, answers).message


class Stopped(unittest.TestCase):
    def test_here(self):
        with tempfile.TemporaryDirectory() as directory:
            logs = os.path.join(nodedir.rays(directory), "session_2026", "logs", "jobs")
            os.makedirs(logs)
            with open(os.path.join(logs, "supervisor-a-1.log"), "wb") as f:
                f.write(b"more\n" * 9000 + KILLED)
            self.assertIn("and Ray killed it", said(INFO, [directory], None))

    def test_elsewhere(self):
        self.assertIn("and Ray killed it", said(INFO, [], Dashboard(KILLED)))
        for log in (b"Job a-1 has been terminated gracefully with SIGTERM.\n", None):
            self.assertNotIn("killed", said(INFO, [], Dashboard(log)))

    def test_others(self):
        self.assertNotIn("killed", said({"status": "SUCCEEDED", "submission_id": "a-1", "driver_exit_code": 0}, [], None))


if __name__ == "__main__":
    unittest.main()
