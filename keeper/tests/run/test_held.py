"""A RayCluster that a queueing system takes back and admits again: its head's pod is told to end, then there is no head, then another one.
kuberay/kueue_test.go has it on the real Kueue."""

import json
import os
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import COMMIT, Rig, noted, resumed


def waits(document):
    return document["attempt"] == 2 and document["phase"] in ("Queued", "Provisioning")


class Held(Rig):
    start = {"held": True}
    restarts = {"preempted": -1}
    lifetime = {"queue": 3600, "start": 2}

    def taken_back(self, **lifetime):
        """A keeper whose head was taken away while the driver ran, and its run directory."""
        self.lifetime = dict(self.lifetime, **lifetime)
        run_dir = self.pod(commit=COMMIT)
        process, seen = self.running(run_dir)
        body = json.dumps({"seconds": 1, "by": "n-head"}).encode()
        urllib.request.urlopen(urllib.request.Request(seen["keeper"]["url"] + "/v1/leaving", body, {"Authorization": "Bearer t"}), timeout=10).close()
        self.until(run_dir, "state.json", lambda d: self.head.stops)
        self.head.away = True
        return process, run_dir, self.until(run_dir, "state.json", waits)

    def test_admitted_again(self):
        """It waits as Queued for longer than a start may take, holds no nodes meanwhile, and the next head has the next attempt."""
        _, run_dir, seen = self.taken_back()
        self.assertEqual([(a["state"], bool(a["released"])) for a in seen["allocations"]][:1], [("released", True)])
        self.assertIn("Queued", [e["to"] for e in seen["timeline"] if e["attempt"] == 2])
        self.assertEqual((seen["attempts"][0]["cause"], seen["deadlines"].get("start")), ("preempted", None))
        self.head.away, self.head.session, self.head.known = False, "session_2", {}
        seen = self.until(run_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        self.assertEqual([a["state"] for a in seen["allocations"]], ["released", "granted"])
        self.assertEqual([s["submission_id"] for s in self.head.submissions], ["n-1", "n-2"])

    def test_old_head_answers(self):
        """A head that is being taken away, and answers or has its name's address for some time, is no admission."""
        _, run_dir, seen = self.taken_back()
        for self.head.away in (False, True):
            asked = self.head.asked
            self.until(run_dir, "state.json", lambda d: self.head.asked > asked + 2)
            seen = self.until(run_dir, "state.json", waits)
            self.assertEqual((seen["phase"], [a["state"] for a in seen["allocations"]]), ("Queued", ["released", "queued"]))
        self.assertEqual([g["ready"] for g in seen["groups"]], [0, 0])

    def test_not_admitted_again(self):
        """lifetime.queue ends it, not lifetime.start, which is over before."""
        _, run_dir, _ = self.taken_back(queue=4)
        end = self.ended(run_dir)["exit"]
        self.assertEqual((end["cause"], end["retryable"]), ("queue", True))

    def test_keeper_lost_meanwhile(self):
        """The next keeper waits in the same way."""
        process, _, before = self.taken_back(queue=6)
        self.kill(process)
        run_dir = self.pod(commit=COMMIT, **{"state.json": dict(noted(before), nodes=None)})
        self.keeper(run_dir)
        seen = self.until(run_dir, "state.json", resumed)
        self.assertIn(seen["phase"], ("Queued", "Provisioning"))
        self.assertEqual(self.ended(run_dir)["exit"]["cause"], "queue")

    def test_keeper_lost_before_it_was_noted(self):
        """The document of a keeper that was killed once the loss was noted, and before anything else."""
        process, _, before = self.taken_back(queue=6)
        self.kill(process)
        lost = dict(noted(before), phase="Lost", head=dict(noted(before)["head"], session="session_1"), nodes=None)
        run_dir = self.pod(commit=COMMIT, **{"state.json": lost})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", lambda d: resumed(d) and d["phase"] in ("Queued", "Provisioning"))
        self.assertEqual(self.ended(run_dir)["exit"]["cause"], "queue")


if __name__ == "__main__":
    unittest.main()
