"""What Ray starts has the user's own umask, what we write is private. Run by `go test ./keeper`."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node import supervisor
from rayctl_keeper.run import keeper

PLACE = {"RAYCTL_GCS": "127.0.0.1:1", "RAYCTL_DASHBOARD": "127.0.0.1:2", "RAYCTL_CLIENT_PORT": "3", "RAYCTL_NODE_IP": "127.0.0.1"}


class Umask(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name
        self.addCleanup(os.umask, os.umask(0o027))

    def current(self):
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_keeper(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("RAYCTL_UMASK", None)
            keeper.keep_private()
            self.assertEqual((os.environ["RAYCTL_UMASK"], self.current()), ("0027", 0o077))
            keeper.keep_private()  # as the batch script on Slurm has done already
            self.assertEqual(os.environ["RAYCTL_UMASK"], "0027")

    def test_node(self):
        ray, said = os.path.join(self.dir, "ray"), os.path.join(self.dir, "said")
        with open(ray, "w") as f:
            f.write("#!/bin/sh\numask > %s\n" % said)
        os.chmod(ray, 0o700)
        orders = {"version": 1, "name": "n", "attempt": 1, "ray": {"python": ray, "setup": "true", "tempRoot": self.dir}, "groups": [{"name": "head", "count": 1}]}
        with open(os.path.join(self.dir, "orders.json"), "w") as f:
            json.dump(orders, f)
        os.umask(0o077)
        with mock.patch.dict(os.environ, dict(PLACE, RAYCTL_UMASK="0027")):
            node = supervisor.Supervisor(self.dir, "head-0", False)
            node.make_directory()
            self.addCleanup(node.clean)
            node.start()
            node.child.wait()
        with open(said) as f:
            self.assertEqual(f.read(), "0027\n")
        self.assertEqual(self.current(), 0o077)
        self.assertEqual(os.stat(os.path.join(node.directory, "start.log")).st_mode & 0o077, 0)

    def test_files_of_the_site(self):
        """The client's directories there: private, but job.outputDir with the user's umask."""
        text = ""
        for name in ("rayctl_keeper/state/model.py", "rayctl_keeper/slurm/attempts/after.py", "rayctl_keeper/run/shared.py", "slurm_files.py"):
            with open(os.path.join(os.path.dirname(HERE), name)) as f:
                text += f.read() + "\n"
        ours, theirs = os.path.join(self.dir, "ours"), os.path.join(self.dir, "a", "theirs")
        requests = [{"id": 1, "op": "make", "path": ours, "mode": 0o700}, {"id": 2, "op": "make", "path": theirs, "mode": 0o755}]
        out = subprocess.run([sys.executable, "-c", text], input="".join(json.dumps(r) + "\n" for r in requests).encode(), stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(out.count(b"error"), 0)
        self.assertEqual([oct(os.stat(path).st_mode & 0o777) for path in (ours, os.path.dirname(theirs), theirs)], ["0o700", "0o750", "0o750"])


if __name__ == "__main__":
    unittest.main()
