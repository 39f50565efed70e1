"""The head's pod has told why its Ray ends, and KubeRay starts it again: the attempt's end has that cause. The conformance suite has it on the real KubeRay."""

import json
import os
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import COMMIT, Rig


class HeadEnded(Rig):
    restarts = {"nodeFailure": 2}

    def test_told(self):
        run_dir = self.pod(commit=COMMIT)
        _, seen = self.running(run_dir)
        body = json.dumps({"message": "raylet was ended by SIGKILL", "by": "n-head"}).encode()
        urllib.request.urlopen(urllib.request.Request(seen["keeper"]["url"] + "/v1/ended", body, {"Authorization": "Bearer t"}), timeout=10).close()
        self.restart_head(run_dir, 2)
        self.restart_head(run_dir, 3)
        first, second = self.until(run_dir, "state.json", lambda d: d["attempt"] == 3)["attempts"][:2]
        self.assertEqual(first["message"], "the head has ended: raylet was ended by SIGKILL")
        self.assertIn("the head was restarted", second["message"])  # of which nothing was told

    def restart_head(self, run_dir, attempt):
        self.head.session, self.head.known = "session_%d" % attempt, {}
        self.until(run_dir, "state.json", lambda d: d["attempt"] == attempt and d["job"]["state"] == "RUNNING")


if __name__ == "__main__":
    unittest.main()
