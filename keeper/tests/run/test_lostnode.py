"""A driver that fails because one of its nodes was lost: the attempt was lost, not the driver's fault."""

import json
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import COMMIT, Rig, record

LOST = {"node_id": "w", "state": "DEAD", "state_message": "Unexpected termination: health check failed"}
TAKEN = {"node_id": "w", "state": "DEAD", "state_message": "Terminated due to preemption: the pod gets SIGTERM"}
ANOTHER = {"node_id": "x", "state": "ALIVE"}


class Lossy(Rig):
    def lose(self, node, later=0.0):
        """A driver whose node is lost, and which fails; after a while Ray has another node. Returns the run directory."""
        run_dir = self.pod(commit=COMMIT)
        self.running(run_dir)
        if not later:
            self.head.workers = [node]
        self.head.known["n-1"] = record("FAILED", 1)
        time.sleep(later)
        self.head.workers = [node, ANOTHER]
        return run_dir

    def next_attempt(self, run_dir):
        found = self.until(run_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        return found["attempts"][0]["cause"], found["attempts"][0]["message"]


class Lost(Lossy):
    restarts = {"nodeFailure": 1}

    def test_the_next_attempt_follows(self):
        run_dir = self.lose(LOST)
        self.assertEqual(self.next_attempt(run_dir), ("lost", "the driver exited with code 1, after node w was lost"))
        self.head.known["n-2"] = record("FAILED", 3)  # by itself: what an attempt lost before is not the reason
        end = self.ended(run_dir)["exit"]
        self.assertEqual((end["cause"], end["code"], end["message"]), ("driver-failed", 3, "the driver exited with code 3"))

    def test_ray_knows_of_it_later(self):
        self.assertEqual(self.next_attempt(self.lose(LOST, later=2.0))[0], "lost")


class Taken(Lossy):
    restarts = {"preempted": -1}

    def test_the_next_attempt_follows(self):
        self.assertEqual(self.next_attempt(self.lose(TAKEN)), ("preempted", "the driver exited with code 1, after node w was taken away"))


class StartedAgain(Lossy):
    """Ray's container started again in the pod, and Ray still takes the former node for alive."""

    restarts = {"nodeFailure": 1}

    def test_the_ghost_is_waited_for(self):
        former, now = dict(node_id="w", node_name="10.0.0.2", state="ALIVE", start_time_ms=1), dict(node_id="x", node_name="10.0.0.2", state="ALIVE", start_time_ms=2)
        self.head.workers = [former]
        run_dir = self.pod(commit=COMMIT)
        self.running(run_dir)
        self.head.workers = [now, former]
        self.head.known["n-1"] = record("FAILED", 1)
        self.until(run_dir, "state.json", lambda d: d["attempt"] == 2)
        time.sleep(1.0)
        self.assertNotIn("n-2", self.head.known)
        self.head.workers = [now, dict(former, state="DEAD")]
        self.assertEqual(self.next_attempt(run_dir), ("lost", "the driver exited with code 1, after node 10.0.0.2 was lost"))


class NoneLeft(Lossy):
    restarts = {}

    def test_the_next_attempt_follows(self):
        end = self.ended(self.lose(LOST))["exit"]
        self.assertEqual((end["cause"], end["code"], end["message"]), ("driver-failed", 1, "the driver exited with code 1, after node w was lost"))


class Elastic(Lossy):
    """A driver has to bear that such nodes go."""

    restarts = {"preempted": -1}

    def test_the_next_attempt_follows(self):
        self.assertEqual(self.ended(self.lose(TAKEN))["exit"]["message"], "the driver exited with code 1")

    def pod(self, **files):
        run_dir = super().pod(**files)
        path = os.path.join(run_dir, "orders.json")
        with open(path) as f:
            orders = json.load(f)
        orders["groups"][1]["max"] = 3
        with open(path, "w") as f:
            json.dump(orders, f)
        return run_dir


if __name__ == "__main__":
    unittest.main()
