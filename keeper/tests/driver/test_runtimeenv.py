"""Why a runtime environment could not be made. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import rayjob, runtimeenv
from rayctl_keeper.node.files import nodedir
from rayctl_keeper.ray import dashboard

VAGUE = "status = IOError: HTTP request returns non-ok status code 500\n\nServer got itself in trouble, maybe there are some network problems"
CAUSE = "FileNotFoundError: [Errno 2] No such file or directory: '/r.txt'"


class Answers:
    """The head's dashboard, for a keeper on another host."""

    def state(self, resource, timeout):
        return [{"node_id": "w", "is_head_node": False}, {"node_id": "h", "is_head_node": True}]

    def log_path(self, kind, node_id, filename, **query):
        return node_id + "/" + filename

    def request(self, method, path, timeout):
        return (CAUSE + "\n").encode() if path == "h/runtime_env_agent.err" else b""


class Unreachable:
    def state(self, resource, timeout):
        raise dashboard.Unreachable("it does not answer")


class RuntimeEnvironment(unittest.TestCase):
    def test_agents_log(self):
        """An exception in Ray's agent is only in its log; a message with the cause needs none."""
        with tempfile.TemporaryDirectory() as directory:
            logs = os.path.join(nodedir.rays(directory), "session_2026", "logs")
            os.makedirs(logs)
            with open(os.path.join(logs, runtimeenv.AGENT), "w") as f:
                f.write("Traceback:\n" + "  more\n" * 9000 + CAUSE + "\n")
            words = runtimeenv.agents_words(VAGUE, [directory], Unreachable())
            self.assertEqual(rayjob.not_started(words).message, "the driver did not start: " + CAUSE)
            self.assertLess(len(words), 20000)
            self.assertEqual(runtimeenv.agents_words("ERROR: No matching distribution found for x", [directory], None), b"")

    def test_elsewhere(self):
        words = runtimeenv.agents_words(VAGUE, [], Answers())
        self.assertEqual(rayjob.not_started(words).message, "the driver did not start: " + CAUSE)
        self.assertEqual(runtimeenv.agents_words(VAGUE, [], Unreachable()), b"")

    def test_uv(self):
        text = "details.\nerror: Couldn't parse requirement\n  cause: Expected one of"
        self.assertEqual(dashboard.error_line(text), "error: Couldn't parse requirement")


if __name__ == "__main__":
    unittest.main()
