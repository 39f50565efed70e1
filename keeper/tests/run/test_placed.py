"""Workers' pods that get their nodes one by one. Run by `go test ./keeper`; kuberay's TestNodeComesLate has it on the real one."""

import json
import os
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import COMMIT, Rig, noted


def waits(document):
    return document["phase"] == "Starting" and document["reason"]["message"] == "1 of 2 nodes are alive"


class PlacedPods(Rig):
    start = {"placed": True}

    def setUp(self):
        super().setUp()
        self.head.complete = False

    def tell(self, run_dir, at):
        """As the worker's pod does."""
        with open(os.path.join(run_dir, "state.json")) as f:
            url = json.load(f)["keeper"]["url"]
        body = json.dumps({"part": "worker", "group": "w", "pod": "n-w-x", "at": at}).encode()
        urllib.request.urlopen(urllib.request.Request(url + "/v1/granted", body, {"Authorization": "Bearer t"}), timeout=10).close()

    def keeps_waiting(self, run_dir):
        """Beyond lifetime.start of a hundredth of a second: the keeper looks for nodes less often than that."""
        self.until(run_dir, "state.json", waits)
        time.sleep(0.5)
        with open(os.path.join(run_dir, "state.json")) as f:
            self.assertTrue(waits(json.load(f)))

    def test_start_counts_from_the_last_node(self):
        self.lifetime = {"start": 0.01, "queue": 3600}
        run_dir = self.pod(commit=COMMIT)
        self.keeper(run_dir)
        self.keeps_waiting(run_dir)
        self.tell(run_dir, time.time() - 3600)  # while its image was pulled
        exit = self.ended(run_dir)["exit"]
        self.assertEqual((exit["cause"], exit["code"]), ("start-failed", 73))
        self.assertIn("lifetime.start", exit["message"])

    def test_alive_has_a_node(self):
        """What a pod could not report is seen in Ray."""
        self.lifetime = {"start": 0.01}
        run_dir = self.pod(commit=COMMIT)
        self.keeper(run_dir)
        self.keeps_waiting(run_dir)
        self.head.complete = True
        self.until(run_dir, "state.json", lambda d: d["phase"] == "Ready")

    def test_queue_counts_meanwhile(self):
        """Also with the next keeper, which begins no lifetime.start either."""
        self.lifetime = {"start": 0.01, "queue": 3600}
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", waits)
        self.kill(first)
        self.lifetime["queue"] = 0.01
        run_dir = self.pod(commit=COMMIT, **{"state.json": dict(noted(before), nodes=None)})
        self.keeper(run_dir)
        exit = self.ended(run_dir)["exit"]
        self.assertEqual(exit["cause"], "queue")
        self.assertIn("1 of 2 nodes are alive", exit["message"])

    def test_next_keeper_knows(self):
        """The reports of all pods are in the keeper's timeline."""
        self.lifetime = {"start": 600}
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        self.until(first_dir, "state.json", waits)
        self.tell(first_dir, time.time())
        before = self.until(first_dir, "state.json", lambda d: any(e["to"] == "Granted" for e in d["timeline"]))
        self.kill(first)
        self.lifetime = {"start": 0.01}
        run_dir = self.pod(commit=COMMIT, **{"state.json": dict(noted(before), nodes=None)})
        self.keeper(run_dir)
        self.assertEqual(self.ended(run_dir)["exit"]["cause"], "start-failed")


if __name__ == "__main__":
    unittest.main()
