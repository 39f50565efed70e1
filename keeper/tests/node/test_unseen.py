"""Ends that `ray start --block` does not see. Run by `go test ./keeper` with every Python that the machine has; TestRayStop and TestDashboardPortTaken have the real Ray."""

import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.rayhook import unseen

STARTS = """
import os, subprocess, sys
from rayctl_keeper.rayhook import unseen
unseen.PAUSE = unseen.LATE = 0.01
raylet = subprocess.Popen(["bash", "-c", "exec -a raylet sleep 600"])
children = unseen.children

def seen():
    found = list(children())
    if "raylet" in [name for _, name in found]:
        raylet.kill()
        raylet.wait()
    return found

unseen.children = seen
unseen.await_end(sys.argv[1], ("raylet",))
print("goes on")
"""


@unittest.skipUnless(sys.platform.startswith("linux"), "nodes are on Linux")
class Ended(unittest.TestCase):
    def start(self, raylets_log):
        with tempfile.TemporaryDirectory() as temp:
            logs = os.path.join(temp, "session_latest", "logs")
            os.makedirs(logs)
            with open(os.path.join(logs, "raylet.out"), "w") as f:
                f.write(raylets_log)
            return subprocess.run([sys.executable, "-c", STARTS, temp], cwd=os.path.dirname(HERE), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def test_by_somebody(self):
        ended = self.start("[2026-11-28 19:13:49,605 I 16019 16019] (raylet) main.cc:1174: received SIGTERM. Existing local drain request = None\n")
        self.assertEqual((ended.returncode, ended.stdout), (1, b""))
        self.assertIn(b"raylet was ended by SIGTERM, which rayctl has not sent: `ray stop`", ended.stderr)

    def test_with_its_agent(self):
        ended = self.start("[2026-11-30 11:12:04,289 E 1335 1393] (raylet) agent_manager.cc:87: The raylet exited immediately because one Ray agent failed, agent_name = runtime_env_agent.\n")
        self.assertEqual((ended.returncode, ended.stdout), (1, b""))
        self.assertIn(b"raylet has ended because its runtime_env_agent has: `ray stop` or `pkill`", ended.stderr)

    def test_drained(self):
        ended = self.start("[2026-11-28 19:13:49,605 I 16019 16019] (raylet) the node is drained\n")
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, b"goes on\n", b""))


class Told(unittest.TestCase):
    """The head's pod tells the keeper which processes of Ray have ended, before `ray start` ends itself."""

    def test_killed(self):
        told, shown = [], []
        scripts = types.SimpleNamespace(_log_unexpected_subprocess_exit_details=lambda *arguments: shown.append(arguments))
        dead = [("raylet", types.SimpleNamespace(returncode=-9)), ("dashboard", types.SimpleNamespace(returncode=1))]
        with mock.patch.multiple(unseen.leave, tells=lambda: True, head_ended=told.append):
            unseen.tell_ends(scripts)
            scripts._log_unexpected_subprocess_exit_details(dead, "logs", None)
        self.assertEqual(shown, [(dead, "logs", None)])
        self.assertRegex(told[0], "^raylet was ended by SIGKILL, which rayctl has not sent: `ray stop` or `pkill -9` .*; its dashboard ended with exit code 1$")

    def test_older_versions(self):
        with mock.patch.object(unseen.leave, "tells", lambda: True):
            unseen.tell_ends(types.SimpleNamespace())

    def test_without_a_warning(self):
        """A pod with a short grace: SIGTERM remains Ray's, and `ray start` is known to have got it."""
        drained = []
        node = types.SimpleNamespace(_drain_node_before_shutdown=drained.append)
        constants = types.SimpleNamespace(PROCESS_TYPE_RAYLET="raylet", RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=30.0)
        environment = {"RAYCTL_WARN_KEEPER": "http://keeper:1"}
        with mock.patch.dict(os.environ, environment), mock.patch.multiple(unseen.leave, _settings={}, _signals={"seen": False, "got": False}):
            unseen.leave.take()
            self.assertEqual((unseen.leave.active(), unseen.leave.tells()), (False, True))
            unseen.leave.change(node, constants)
            self.assertTrue(unseen.leave.stays())
            node._drain_node_before_shutdown("the node")
            self.assertFalse(unseen.leave.stays())
        self.assertEqual(drained, ["the node"])

    def test_several(self):
        """`ray stop` has ended both before the next look."""
        logs, said = {"raylet.out": "main.cc:1: received SIGTERM", "gcs_server.out": "GCS server received SIGTERM"}, []

        def end(sentence):
            said.append(sentence)
            raise SystemExit

        with mock.patch.multiple(unseen, children=lambda: [(1, "gcs_server"), (2, "raylet")], end=end, PAUSE=0.0, LATE=0.0), \
                mock.patch.multiple(unseen.process, lives=lambda pid: False), mock.patch.multiple(unseen.headfile, log_of=lambda temp, name: logs[name]):
            self.assertRaises(SystemExit, unseen.await_end, "/", ("raylet", "gcs_server"))
        self.assertRegex(said[0], "^raylet was ended by SIGTERM")

    def test_its_own_end(self):
        """`ray start` has got SIGTERM, and ends the raylet."""
        with mock.patch.multiple(unseen, children=lambda: [(1, "raylet")], end=self.fail, PAUSE=0.0, LATE=0.0), \
                mock.patch.multiple(unseen.process, lives=lambda pid: False), mock.patch.multiple(unseen.headfile, log_of=lambda temp, name: "main.cc:1: received SIGTERM"):
            self.assertIsNone(unseen.await_end("/", ("raylet",), lambda: False))


class Refused(unittest.TestCase):
    def test_the_line_of_the_log(self):
        line = "Exception: Failed to find a valid port for dashboard after 0 retries: [Errno 98] error while attempting to bind on address ('127.0.0.1', 23441): address already in use"
        self.assertEqual(unseen.refused("Traceback (most recent call last):\n  File x\n%s\n\n" % line), line)
        self.assertEqual(unseen.refused("WARNING: nothing of note\n"), "")


if __name__ == "__main__":
    unittest.main()
