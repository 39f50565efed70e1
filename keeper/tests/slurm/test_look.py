"""What doctor learns of Ray on a node. Run by `go test ./keeper`; TestNodes and TestLimits of slurm ask real nodes."""

import json
import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from sample import HOSTILE
from rayctl_keeper.slurm.doctor import look


class Look(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def orders(self, setup="", container=None, **ray):
        """Of a node whose Ray is a module in self.dir."""
        with open(os.path.join(self.dir, "ray.py"), "w") as f:
            f.write("import os\nprint('noise')\n__version__ = os.environ['GIVEN']\n")
        start = {"container": container, "command": [sys.executable, os.path.dirname(HERE), "slurm-look", "$RAYCTL_RUN_DIR", "within"]} if container else {}
        return {"version": 1, "name": "n", "lifetime": {}, "start": start, "groups": [{"name": "head", "count": 1, "env": {"GIVEN": HOSTILE.splitlines()[0]}}],
                "ray": dict({"python": sys.executable, "setup": setup, "env": {"PYTHONPATH": self.dir, "GIVEN": "the file's"}}, **ray)}

    def said(self, **orders):
        return look.ray(self.orders(**orders), self.dir)

    def test_environment(self):
        """Ray is imported with the variables of the file, those of the group first, and with what setup exports."""
        self.assertEqual(self.said(), "ray " + HOSTILE.splitlines()[0])
        self.assertEqual(self.said(setup="export GIVEN=\"$GIVEN; $RAYCTL_NODE_DIR\""), "ray %s; %s" % (HOSTILE.splitlines()[0], self.dir))

    def test_not_slurms(self):
        """Nothing of the step's that looks, as in a job."""
        with mock.patch.dict(os.environ, {"SLURM_STEP_ID": "7", "RAY_ADDRESS": "elsewhere"}):
            self.assertEqual(self.said(setup='export GIVEN="[$SLURM_STEP_ID$RAY_ADDRESS]"'), "ray []")

    def test_failures(self):
        self.assertEqual(self.said(setup="echo it is so; false"), "setup exited with code 1: it is so")
        self.assertEqual(self.said(setup="exit 3"), "setup exited with code 3: it printed nothing")
        self.assertIn("No module named 'ray'", look.ray(dict(self.orders(), ray={"python": sys.executable, "env": {"PYTHONPATH": "/nosuch"}}), self.dir))
        self.assertEqual(self.said(python="/no/such/python"), "/no/such/python: No such file or directory")

    def container(self, script):
        """The two lines, of a runtime that is this script."""
        runtime = os.path.join(self.dir, "runtime")
        with open(runtime, "w") as f:
            f.write("#!/bin/bash\n" + script + "\n")
        os.chmod(runtime, 0o755)
        orders = self.orders(container={"runtime": runtime, "image": "i", "args": [], "binds": []})
        with open(os.path.join(self.dir, "orders.json"), "w") as f:
            json.dump(orders, f)
        return look.contained(orders, self.dir)

    def test_container(self):
        starts = 'while [ "$1" != i ]; do shift; done; shift; '
        self.assertEqual(self.container(starts + 'echo "INFO: converting"; exec "$@"'), ("ok", "ray " + HOSTILE.splitlines()[0]))
        self.assertEqual(self.container("echo FATAL: could not open image i >&2; echo advice; exit 255"), ("no FATAL: could not open image i", ""))
        # Pyxis 0.20, of an image that its registry does not give.
        pyxis = "\n".join("slurmstepd: error: " + line for line in (
            "pyxis: child 17 failed with error code: 1", "pyxis: failed to import docker image", "pyxis: printing enroot log file:", "pyxis:     [INFO] Querying registry for permission grant",
            "pyxis:     [ERROR] URL https://registry-1.docker.io/v2/a/manifests/b returned error code: 401 Unauthorized", "pyxis: couldn't start container",
            "spank: required plugin spank_pyxis.so: task_init() failed with rc=-1")) + "\nsrun: error: node1: task 0: Exited with exit code 1"
        self.assertIn("401 Unauthorized", self.container("cat <<'E'\n%s\nE\nexit 1" % pyxis)[0])
        self.assertEqual(self.container("exit 9"), ("no it exited with code 9", ""))

    def test_no_runtime(self):
        orders = self.orders(container={"runtime": "nosuch-runtime", "image": "i", "args": [], "binds": []})
        self.assertEqual(look.contained(orders, self.dir), ("no nosuch-runtime: No such file or directory", ""))

    def test_late(self):
        with mock.patch.object(look, "PATIENCE", 0.05):
            self.assertEqual(self.container("exec sleep 60"), ("late 0", ""))


if __name__ == "__main__":
    unittest.main()
