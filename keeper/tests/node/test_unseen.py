"""Ends that `ray start --block` does not see. Run by `go test ./keeper` with every Python that the machine has; TestRayStop and TestDashboardPortTaken have the real Ray."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.rayhook import unseen

STARTS = """
import os, subprocess, sys
from rayctl_keeper.rayhook import unseen
unseen.PAUSE = unseen.LATE = 0.01
raylet = subprocess.Popen(["bash", "-c", "exec -a raylet sleep 0.5"])
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

    def test_drained(self):
        ended = self.start("[2026-11-28 19:13:49,605 I 16019 16019] (raylet) the node is drained\n")
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, b"goes on\n", b""))


class Refused(unittest.TestCase):
    def test_the_line_of_the_log(self):
        line = "Exception: Failed to find a valid port for dashboard after 0 retries: [Errno 98] error while attempting to bind on address ('127.0.0.1', 23441): address already in use"
        self.assertEqual(unseen.refused("Traceback (most recent call last):\n  File x\n%s\n\n" % line), line)
        self.assertEqual(unseen.refused("WARNING: nothing of note\n"), "")


if __name__ == "__main__":
    unittest.main()
