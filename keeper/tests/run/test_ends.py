"""When a run ends at the latest, as its driver's environment has it. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import rayjob
from rayctl_keeper.run.limits.ends import ends_at
from rayctl_keeper.run.limits.limits import Limits
from rayctl_keeper.state import exits

STEP, YEAR = {"mode": "step", "warning": 90}, 365 * 86400


class Ends(unittest.TestCase):
    def of(self, start, limits=None, **environment):
        with unittest.mock.patch.dict(os.environ, environment):
            return ends_at(limits or Limits({}, 0), start)

    def test_earliest(self):
        now = time.monotonic()
        limits = Limits({"max": 100, "total": 50, "idle": 5}, now)
        self.assertIsNone(self.of({"mode": "spawn"}, limits), "they do not count yet")
        for name in ("max", "total", "idle"):
            limits.begin(name, now)
        self.assertAlmostEqual(self.of({"mode": "spawn"}, limits), time.time() + 50, delta=5)

    def test_slurms_warning(self):
        job = {"SLURM_JOB_START_TIME": "1000", "SLURM_JOB_END_TIME": "5000"}
        self.assertEqual(self.of(STEP, **job), 4910)
        self.assertEqual(self.of({"mode": "step"}, **job), 5000, "in somebody else's allocation nobody warns")
        self.assertIsNone(self.of({"mode": "spawn"}, **job), "a local cluster is not the job's")

    def test_short_job(self):
        """Its end needs no more than a sixth of it, and the grace."""
        self.assertEqual(self.of(STEP, SLURM_JOB_START_TIME="1000", SLURM_JOB_END_TIME="1180"), 1180 - 30 - 30)

    def test_no_limit(self):
        """Slurm gives such a job an end a year away."""
        self.assertIsNone(self.of(STEP, SLURM_JOB_START_TIME="1000", SLURM_JOB_END_TIME=str(1000 + YEAR)))

    def test_environment(self):
        """verl's variable is the same, unless the user has another."""
        orders = {"name": "n", "job": {"entrypoint": "true", "submissionPrefix": "n", "env": {}}, "ray": {"env": {}}}

        def got(ends):
            env = rayjob.submission(orders, {}, 1, "", ends)["runtime_env"]["env_vars"]
            return env.get("RAYCTL_ENDS_AT"), env.get(rayjob.VERL)
        self.assertEqual(got(None), (None, None))
        self.assertEqual(got(12.9), ("12", "12"))
        orders["job"]["env"][rayjob.VERL] = "7"
        self.assertEqual(got(12.9), ("12", "7"))
        orders["job"]["env"].clear()
        orders["ray"]["env"][rayjob.VERL] = "8"
        self.assertEqual(got(12.9), ("12", None))
        orders["ray"] = {}
        orders["groups"] = [{"name": "head", "count": 1, "env": {rayjob.VERL: "9"}}]
        self.assertEqual(got(12.9), ("12", None))

    def test_sizes(self):
        """The driver sees how many nodes with GPUs its start waits for, and how many each of them has where that is one number."""
        def got(*groups):
            orders = {"name": "n", "job": {"entrypoint": "true", "submissionPrefix": "n"}, "groups": [dict(zip(("name", "count", "gpus"), g)) for g in groups]}
            env = rayjob.submission(orders, {}, 1, "", None)["runtime_env"]["env_vars"]
            return env["RAYCTL_GPU_NODES"], env.get("RAYCTL_GPUS_PER_NODE")
        self.assertEqual(got(("head", 1, 0.0), ("train", 4, 8.0)), ("4", "8"))
        self.assertEqual(got(("train", 4, 8.0), ("rollout", 2, 8.0)), ("6", "8"))
        self.assertEqual(got(("train", 4, 8.0), ("rollout", 2, 4.0)), ("6", None))
        self.assertEqual(got(("train", 4, 8.0), ("spare", 0, 4.0)), ("4", "8"))
        self.assertEqual(got(("w", 4, None)), ("0", None))

    def test_signal_without_a_name(self):
        """A real-time signal is an end as others are."""
        for end in (exits.driver_end(-35), exits.prepare_end(-35)):
            self.assertEqual(end.document()["code"], 163)
            self.assertIn("was ended by signal 35", end.message)


if __name__ == "__main__":
    unittest.main()
