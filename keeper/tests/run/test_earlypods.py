"""An early head whose workers are pods: the pods' reports to the keeper, and a keeper that follows another meanwhile. kuberay/early_test.go has it on the real one."""

import json
import os
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import COMMIT, Rig, noted, record


def gang(document):
    """The newest allocation of the workers; {}: there is none."""
    return next((a for a in reversed(document["allocations"]) if a["purpose"] == "gang"), {})


def waits(document):
    return document["phase"] == "Queued" and gang(document).get("state") == "queued" and document["reason"]["message"] == "job.prepare runs; the gang waits: it has no nodes yet"


class EarlyPods(Rig):
    start = {"early": True}
    job = {"prepare": "download"}

    def setUp(self):
        super().setUp()
        self.head.complete = False

    def tell(self, run_dir, part, at):
        """As a pod does."""
        with open(os.path.join(run_dir, "state.json")) as f:
            url = json.load(f)["keeper"]["url"]
        body = json.dumps({"part": part, "at": at}).encode()
        urllib.request.urlopen(urllib.request.Request(url + "/v1/granted", body, {"Authorization": "Bearer t"}), timeout=10).close()

    def follows(self, before):
        """The run directory of a pod that has what a client noted."""
        return self.pod(commit=COMMIT, **{"state.json": dict(noted(before), nodes=None)})

    def test_prepare_while_queued(self):
        """The gang's allocation is that of its first pod, whenever the keeper learns of it. The driver begins when all nodes are there."""
        run_dir = self.pod(commit=COMMIT)
        self.keeper(run_dir)
        seen = self.until(run_dir, "state.json", waits)
        self.assertEqual(seen["reason"]["code"], "WaitingForGang")
        self.assertEqual([(a["purpose"], a["state"], a["groups"]) for a in seen["allocations"]], [("head", "granted", {"head": 1}), ("gang", "queued", {"w": 1})])
        self.tell(run_dir, "gang", time.time() + 100)  # a clock that is wrong
        seen = self.until(run_dir, "state.json", lambda d: gang(d)["state"] == "granted" and d["phase"] == "Starting")  # two writes
        self.assertLessEqual(gang(seen)["queued"], gang(seen)["granted"])
        self.head.known["n-prepare-1"] = record("SUCCEEDED", 0)
        self.until(run_dir, "state.json", lambda d: d["job"]["prepare"]["state"] == "SUCCEEDED")
        self.assertEqual(len(self.head.submissions), 1)
        self.head.complete = True
        self.until(run_dir, "state.json", lambda d: d["phase"] == "Ready" and d["job"]["state"] == "RUNNING")
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        result = self.ended(run_dir)
        self.assertEqual([(a["purpose"], a["state"]) for a in result["allocations"]], [("head", "released"), ("gang", "released")])

    def test_keeper_lost_while_queued(self):
        """The next one goes on: nothing is submitted twice, lifetime.queue and lifetime.max count on. If the pod could not report to it, it sees the worker in Ray."""
        self.lifetime = {"queue": 3600, "max": 7200}
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", waits)
        self.kill(first)
        run_dir = self.follows(before)
        self.keeper(run_dir)
        seen = self.until(run_dir, "state.json", lambda d: waits(d) and d["head"]["nodeId"] and any(e["event"] == "keeper" for e in d["timeline"]))
        self.assertEqual((seen["allocations"], seen["since"]), (before["allocations"], before["since"]))
        self.assertEqual(seen["deadlines"]["max"], before["deadlines"]["max"])
        self.head.complete = True
        self.until(run_dir, "state.json", lambda d: gang(d)["state"] == "granted" and d["phase"] == "Ready")
        self.assertEqual(len(self.head.submissions), 1)
        self.head.known["n-prepare-1"] = record("FAILED", 9)
        result = self.ended(run_dir)
        self.assertEqual((result["exit"]["cause"], result["exit"]["code"]), ("prepare-failed", 9))

    def test_head_lost_with_the_keeper(self):
        """What was prepared is lost with it."""
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", waits)
        self.kill(first)
        self.head.session, self.head.known = "session_2", {}
        run_dir = self.follows(before)
        self.keeper(run_dir)
        result = self.ended(run_dir)
        self.assertEqual(result["exit"]["cause"], "lost")
        self.assertEqual(len(self.head.submissions), 1)

    def test_queue_limit(self):
        """It counts anew for the gang, and the message of the end names what was waited for."""
        self.lifetime = {"queue": 2}
        run_dir = self.pod(commit=COMMIT)
        self.keeper(run_dir)
        result = self.ended(run_dir)
        self.assertEqual(result["exit"]["cause"], "queue")
        self.assertIn("the gang waits: it has no nodes yet", result["exit"]["message"])
        self.assertIsNone(gang(result)["granted"])


if __name__ == "__main__":
    unittest.main()
