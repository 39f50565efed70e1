"""Directories of nodes whose processes were all killed. Run by `go test ./keeper`."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node import guard
from rayctl_keeper.node.files import left, nodedir

# A node's supervisor and its forked guard; it prints its directory.
NODE = """import sys, time
sys.path.insert(0, sys.argv[1])
from rayctl_keeper.node import guard
from rayctl_keeper.node.files import nodedir
directory = nodedir.make(sys.argv[2])
lock = nodedir.lock(directory)
forked = guard.Forked(directory)
print(forked.pid, directory, flush=True)
time.sleep(3600)"""


@unittest.skipUnless(sys.platform.startswith("linux"), "boot ids are Linux's")
class Left(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = os.path.join(scratch.name, "root")
        os.mkdir(self.root, 0o700)
        self.own = nodedir.make(self.root)

    def node(self):
        """A node's supervisor, its guard's pid and its directory."""
        supervisor = subprocess.Popen([sys.executable, "-c", NODE, os.path.dirname(HERE), self.root], stdout=subprocess.PIPE)
        self.addCleanup(supervisor.stdout.close)
        self.addCleanup(supervisor.wait)
        self.addCleanup(supervisor.kill)
        pid, directory = supervisor.stdout.readline().decode().split()
        return supervisor, int(pid), directory

    def dead(self):
        """The directory of a node whose processes were killed together."""
        supervisor, pid, directory = self.node()
        with open("/proc/%d/stat" % pid) as guarded:
            for number, target in ((19, pid), (19, supervisor.pid), (9, pid), (9, supervisor.pid)):
                os.kill(target, number)
            supervisor.wait()
            while self.lives(guarded):
                pass
        return directory

    @staticmethod
    def lives(stat):
        try:
            stat.seek(0)
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
        except ProcessLookupError:
            return False

    def clear(self):
        left._remove_beside(self.own, nodedir.remove)

    def test_only_the_dead(self):
        living, dead = self.node(), self.dead()
        target = os.path.join(self.root, "spilled")
        nodedir.spill_into(dead, target)
        open(os.path.join(nodedir.spilled(dead, target), "object"), "w").close()
        self.clear()
        self.assertEqual(sorted(os.listdir(self.root)), sorted(os.path.basename(d) for d in (self.own, living[2], target)))
        self.assertEqual(os.listdir(target), [])

    def test_the_guard_lives(self):
        """It is removing the directory itself, or will."""
        supervisor, pid, directory = self.node()
        os.kill(pid, 19)
        supervisor.kill()
        supervisor.wait()
        self.clear()
        self.assertTrue(os.path.exists(os.path.join(directory, left.MARK)))
        os.kill(pid, 9)

    def test_processes_are_left(self):
        dead = self.dead()
        with subprocess.Popen(["sleep", "3600"], env={"RAYCTL_NODE_DIR": dead, "PATH": os.environ["PATH"]}) as child:
            self.clear()
            self.assertTrue(os.path.exists(dead))
            child.kill()
        self.clear()
        self.assertFalse(os.path.exists(dead))

    def test_sockets_answer(self):
        """Of Ray in a container whose processes are not seen here."""
        dead = self.dead()
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.join(nodedir.rays(dead), "raylet"))
            s.listen()
            self.clear()
            self.assertTrue(os.path.exists(dead))
        self.clear()
        self.assertFalse(os.path.exists(dead))

    def test_not_ours(self):
        """Not of this mode, mark, boot, or kind."""
        def unmarked(path):
            os.unlink(os.path.join(path, left.MARK))

        def linked(path):
            os.rename(os.path.join(path, left.MARK), os.path.join(self.root, "mark"))
            os.symlink(os.path.join(self.root, "mark"), os.path.join(path, left.MARK))

        def other_boot(path):
            with open(os.path.join(path, left.MARK), "w") as f:
                f.write("another")

        def fifo(path):
            unmarked(path)
            os.mkfifo(os.path.join(path, left.MARK))

        def renamed(path):
            os.rename(path, path + "x")
            os.symlink(path + "x", path)

        for spoil in (unmarked, linked, other_boot, fifo, renamed, lambda path: os.chmod(path, 0o755)):
            dead = self.dead()
            spoil(dead)
            self.clear()
            self.assertTrue(os.path.isdir(nodedir.rays(dead)))
        dead = self.dead()
        with unittest.mock.patch.object(os, "geteuid", lambda: 12345):
            self.clear()
        self.assertTrue(os.path.exists(dead))


if __name__ == "__main__":
    unittest.main()
