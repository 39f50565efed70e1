"""A keeper of an external cluster (KubeRay) that follows another, of a job that has job.prepare."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import COMMIT, LOG, Rig, record, resumed


class Prepare(Rig):
    def preparing(self, **files):
        """A pod whose job has job.prepare."""
        run_dir = self.pod(commit=COMMIT, **files)
        path = os.path.join(run_dir, "orders.json")
        with open(path) as f:
            orders = json.load(f)
        orders["job"]["prepare"] = "python load.py"
        with open(path, "w") as f:
            json.dump(orders, f)
        return run_dir

    def submitted(self):
        return [body["submission_id"] for body in self.head.submissions]

    def test_prepare_is_followed(self):
        """Keepers in pods of their own: what one has submitted the next one follows, and the log has the output of both programs."""
        first_dir = self.preparing()
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["job"]["prepare"]["state"] == "RUNNING")
        self.assertEqual((before["job"]["state"], before["reason"]["code"]), ("WAITING", "Preparing"))
        self.kill(first)
        second_dir = self.preparing(**{"state.json": before})
        second = self.keeper(second_dir)
        self.until(second_dir, "state.json", resumed)
        self.assertEqual(self.submitted(), ["n-prepare-1"])
        self.head.known["n-prepare-1"] = record("SUCCEEDED", 0)
        before = self.until(second_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")
        self.assertEqual((before["job"]["logBegin"], before["head"]["prepared"]), (len(LOG), True))
        self.until_file(os.path.join(second_dir, "driver.log"), LOG + LOG)
        self.kill(second)
        third_dir = self.preparing(**{"state.json": before})
        self.keeper(third_dir)
        self.until(third_dir, "state.json", resumed)
        self.head.known["n-1"] = record("FAILED", 3)
        self.until(third_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        self.head.known["n-2"] = record("SUCCEEDED", 0)
        result = self.ended(third_dir)
        self.assertEqual(self.submitted(), ["n-prepare-1", "n-1", "n-2"])
        self.assertEqual([(a["attempt"], a.get("logBegin")) for a in result["attempts"]], [(1, len(LOG)), (2, None)])
        for name, content in (("driver-1.log", LOG + LOG), ("driver.log", LOG)):
            self.until_file(os.path.join(third_dir, name), content)

    def test_prepare_that_failed_with_the_keeper(self):
        """Its exit code is the run's, also where the keeper was killed while it ended the cluster."""
        first_dir = self.preparing()
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["job"]["prepare"]["state"] == "RUNNING")
        self.kill(first)
        ending = dict(before, phase="Draining", reason={"code": "prepare-failed", "message": "job.prepare exited with code 9"})
        ending["job"]["prepare"].update(state="FAILED", exitCode=9)
        run_dir = self.preparing(**{"state.json": ending})
        self.keeper(run_dir)
        end = self.ended(run_dir)["exit"]
        self.assertEqual((end["origin"], end["cause"], end["code"], self.submitted()), ("prepare", "prepare-failed", 9, ["n-prepare-1"]))

    def test_prepare_without_a_state(self):
        """Only the head knows what was submitted: job.prepare is followed, and not run beside a driver."""
        for known in ("n-prepare-1", "n-1"):
            with self.subTest(known):
                self.head.submissions.clear()
                self.head.known.clear()
                self.head.known[known] = record("RUNNING")
                run_dir = self.preparing()
                keeper = self.keeper(run_dir)
                self.until(run_dir, "state.json", lambda d: "RUNNING" in (d["job"]["state"], d["job"]["prepare"]["state"]))
                self.assertEqual(self.submitted(), [])
                self.kill(keeper)


if __name__ == "__main__":
    unittest.main()
