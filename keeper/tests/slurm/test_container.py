"""What a supervisor's container is started with. Run by `go test ./keeper`."""

import os
import stat
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node import container
from rayctl_keeper.node.files import scratch
from rayctl_keeper.run.nodes import step

EVIL = "a $HOME ${USER} $(id) `id` 'x' \"y\""


class Command(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir, self.logged = os.path.realpath(directory.name), []
        for name in ("home/.cache", "hf", "torch,x", "cwd", "out/run", "tmp", "elsewhere"):
            os.makedirs(os.path.join(self.dir, name))

    def at(self, name):
        return os.path.join(self.dir, name)

    def orders(self, runtime, **start):
        box = {"runtime": runtime, "image": EVIL, "args": ["--x=" + EVIL], "where": [self.at(n) for n in ("cwd", "out/run", "nosuch")],
               "binds": [{"source": "/r", "target": "/r"}, {"source": "/a", "target": "/b", "readOnly": True}]}
        return {"ray": {"tempRoot": self.at("tmp/$SLURM_JOB_ID"), "env": {"HF_HOME": self.at("hf"), "PIP_CACHE_DIR": "cache"}}, "groups": [],
                "job": {"env": {"TORCH_HOME": self.at("torch,x"), "OTHER": self.at("elsewhere")}}, "start": dict({"container": box}, **start)}

    def environ(self):
        return {"HOME": self.at("home"), "SLURM_JOB_ID": "7"}

    def test_binds(self):
        where = ["%s:%s" % (self.at(n), self.at(n)) for n in ("cwd", "hf", "home/.cache", "out/run", "tmp")]
        bound = ["/r:/r", "/a:/b:ro"] + where
        self.assertEqual(container.command(self.orders("pyxis"), self.environ(), self.logged.append),
                         ["--container-image=" + EVIL, "--container-mounts=" + ",".join(bound), "--no-container-remap-root", "--x=" + EVIL])
        got = container.command(self.orders("singularity"), self.environ(), self.logged.append)
        self.assertEqual(got, ["singularity", "exec"] + [a for b in bound for a in ("--bind", b)] + ["--x=" + EVIL, EVIL])
        self.assertIn("cannot be bound", self.logged[0])

    def test_each_once(self):
        """What is below another, or is a mount's target, is not bound again; nor is the root directory."""
        orders = self.orders("apptainer")
        orders["start"]["container"].update(where=[self.at("out"), self.at("out/run"), self.at("out") + "/", self.at("cwd"), "/"])
        orders["start"]["container"]["binds"].append({"source": "/a", "target": self.at("cwd")})
        self.assertEqual(container.visible(orders, {"SLURM_JOB_ID": "7"}), [self.at(n) for n in ("hf", "out", "tmp", "torch,x")])

    def test_root_remapped(self):
        orders = self.orders("pyxis")
        orders["start"]["container"]["args"] = ["--container-remap-root"]
        self.assertEqual(container.command(orders, self.environ(), self.logged.append)[2:], ["--container-remap-root"])

    def test_step(self):
        """Nothing of the orders is expanded but the attempt's directory."""
        orders = dict(self.orders("pyxis", argv=["srun", EVIL], command=[EVIL, step.RUN_DIR, "x" + step.RUN_DIR]), groups=[{"name": "w", "count": 1}])
        orders["start"]["container"] = None
        ours = step.Step(orders, "/the/run", None, self.logged.append)
        self.assertEqual(ours.command(), ["srun", EVIL, EVIL, "/the/run", "x" + step.RUN_DIR])


class Scratch(unittest.TestCase):
    def test_values(self):
        env = {"SLURM_JOB_ID": "12", "USER": "ann", "TMPDIR": "/local/12", "HOME": "/h"}
        for path, want in (("/tmp", "/tmp"), ("/s/$USER/${SLURM_JOB_ID}.x", "/s/ann/12.x"), ("$TMPDIR", "/local/12"), ("${TMPDIR}/r", "/local/12/r"),
                           ("/s/$USERS", "/s/$USERS"), ("/s/$HOME", "/s/$HOME"), ("/s/$(id)`id`", "/s/$(id)`id`"), ("/s/$$USER", "/s/$ann")):
            self.assertEqual(scratch.expanded(path, env), want)

    def test_refused(self):
        for path, env in (("$TMPDIR", {}), ("$TMPDIR/x", {"TMPDIR": "tmp"}), ("/s/$USER", {"USER": "../../etc"}), ("/s/$USER", {"USER": ".."}), ("/s/$SLURM_JOB_ID", {})):
            with self.assertRaisesRegex(OSError, "slurm.tmpDir is "):
                scratch.expanded(path, env)

    def test_made_and_removed(self):
        with tempfile.TemporaryDirectory() as root:
            path = os.path.join(root, "a", "b")
            scratch.make(path)
            scratch.make(path)  # of another node
            os.mkdir(os.path.join(path, "r1"))
            scratch.remove(path)
            self.assertTrue(os.path.isdir(path))
            os.rmdir(os.path.join(path, "r1"))
            scratch.remove(path)
            self.assertEqual(os.listdir(root), [])
            scratch.remove(root)  # which was there
            self.assertTrue(os.path.isdir(root))

    def test_shared(self):
        """What leads to several jobs' directories is removed by whichever ends last, and not at all if somebody has put something into it."""
        with tempfile.TemporaryDirectory() as root:
            one, two = os.path.join(root, "ann", "j1"), os.path.join(root, "ann", "j2")
            for first, second in ((one, two), (two, one)):
                scratch.make(one)
                scratch.make(two)
                self.assertEqual(stat.S_IMODE(os.lstat(two).st_mode), 0o700)
                scratch.remove(first)
                self.assertEqual((os.path.isdir(first), os.path.isdir(second)), (False, True))
                scratch.remove(second)
                self.assertEqual(os.listdir(root), [])
            scratch.make(one)
            open(os.path.join(root, "ann", "notes"), "w").close()
            scratch.remove(one)
            self.assertEqual(sorted(os.listdir(os.path.dirname(one))), [scratch.MADE, "notes"])

    def test_removed_while_it_is_made(self):
        """Another job removes the common part between our look and our mkdir; somebody uses ours between its last look and its rmdir."""
        with tempfile.TemporaryDirectory() as root:
            one, two = os.path.join(root, "ann", "j1"), os.path.join(root, "ann", "j2")
            scratch.make(one)
            real, removed = os.mkdir, []

            def mkdir(path, mode):
                if path == two and not removed:
                    removed.append(scratch.remove(one))
                real(path, mode)

            with unittest.mock.patch("os.mkdir", mkdir):
                scratch.make(two)
            self.assertEqual(os.listdir(two), [scratch.MADE])
            with unittest.mock.patch("os.rmdir", side_effect=OSError(39, "Directory not empty")):
                scratch.remove(two)
            scratch.remove(two)
            self.assertEqual(os.listdir(root), [])

    def test_once(self):
        """A value is not looked at again."""
        self.assertEqual(scratch.expanded("/s/$USER", {"USER": "$SLURM_JOB_ID", "SLURM_JOB_ID": "7"}), "/s/$SLURM_JOB_ID")


if __name__ == "__main__":
    unittest.main()
