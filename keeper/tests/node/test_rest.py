"""What is saved of the driver's output beyond a dead keeper's copy, and how the two become one. Run by `go test ./keeper`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import process
from rayctl_keeper.node.files import rest
from rayctl_keeper.slurm.attempts import after

LOG = "job-driver-n-1.log"
WHOLE = b"".join(b"line %d\n" % i for i in range(2000))


# A supervisor, or the guard of one that was killed, ends a node while the copier of a driver's output is late: it goes on once the driver has been killed. Prints how much came into the log.
ENDS = r"""
import os, signal, subprocess, sys, threading, time
sys.path.insert(0, sys.argv[1])
from rayctl_keeper.driver import pipe
from rayctl_keeper.host import process
from rayctl_keeper.node import guard
from rayctl_keeper.node.files import rest
process.become_subreaper()
top = sys.argv[2]
def end():
    if sys.argv[3] == "supervisor":
        return rest.drain([guard.mark(top)])
    child = os.fork()
    if child == 0:  # a guard has none of the node's processes below it
        os.setsid()
        guard.end_node(top)
        os._exit(0)
    os.waitpid(child, 0)
log, go, gone = (os.path.join(top, name) for name in ("log", "go", "gone"))
os.mkfifo(go)
os.mkfifo(gone)
command = "read x < %s; head -c 200000 /dev/zero; : > %s; exec sleep 60" % (go, gone)
with open(log, "ab") as f:
    driver = subprocess.Popen(pipe.through(command), shell=True, env=dict(os.environ, RAYCTL_NODE_DIR=top, **pipe.variables(command)), stdout=f, stderr=f, start_new_session=True)
copy = os.open(log, os.O_RDONLY)  # the keeper has it open when the directory is removed
with open(go, "w"):
    shell, = (pid for pid in process.descendants(driver.pid))
    copier, = (pid for pid in process.descendants(os.getpid()) if pid not in (driver.pid, shell))
    os.kill(copier, signal.SIGSTOP)
    os.kill(copier, signal.SIGUSR1)  # as what is left of a Slurm step gets
open(gone).close()
def late():
    while not process._read("/proc/%d/stat" % shell).rpartition(b")")[2].split()[:1] in ([], [b"Z"]):
        time.sleep(0.01)
    os.kill(copier, signal.SIGCONT)
threading.Thread(target=late, daemon=True).start()
end()
left, _ = process.kill_all()
print(os.fstat(copy).st_size, left)
"""


class Rest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run, self.node = os.path.join(directory.name, "run"), os.path.join(directory.name, "node")
        self.logs, self.saved = os.path.join(self.node, "ray", "session_2026", "logs"), os.path.join(self.run, "nodes", "head-0")
        os.makedirs(self.logs)
        os.makedirs(self.run)

    @unittest.skipUnless(process.LINUX, "only Linux shows which processes copy")
    def test_drained(self):
        """What a driver had written when it was killed with its node comes into its log."""
        for who in "supervisor", "guard":
            with tempfile.TemporaryDirectory() as top:
                node = os.path.join(top, "node")
                os.mkdir(node)
                self.assertEqual(subprocess.check_output([sys.executable, "-c", ENDS, os.path.dirname(HERE), node, who]), b"200000 set()\n", who)

    def write(self, path, data):
        with open(path, "wb") as f:
            f.write(data)

    def killed(self, copy, phase="Ready", log=WHOLE, begin=0):
        """The keeper had this copy when it was killed; the answer of what concludes its run."""
        shutil.rmtree(self.saved, ignore_errors=True)
        self.write(os.path.join(self.run, "state.json"), json.dumps({"phase": phase, "job": {"logFile": LOG, "logBegin": begin}}).encode())
        if copy is not None:
            self.write(os.path.join(self.run, "driver.log"), copy)
        if log is not None:
            self.write(os.path.join(self.logs, LOG), log)
        rest.save_rest(self.run, self.node, self.saved)
        return self.salvaged(begin)

    def salvaged(self, begin=0):
        """What a client reads is what whoever concludes the run makes of it; to read changes nothing."""
        request, before = {"attempt": self.run, "log": LOG, "begin": begin}, self.files()
        found = after.saved(request)
        read = b"".join(self.part(*part) for part in found["parts"])
        self.assertEqual(self.files(), before)
        made = after.salvage(request)
        self.assertEqual([made["size"]] + [size for _, _, size in made["parts"]], [len(read)] * 2)
        self.assertEqual(made["whole"], found["whole"])
        if os.path.exists(os.path.join(self.run, "driver.log")):
            self.assertEqual(self.copy(), read)
        return {"size": len(read), "whole": found["whole"]}

    def part(self, path, begin, size):
        if not os.path.exists(path):
            return b""
        with open(path, "rb") as f:
            f.seek(begin)
            data = f.read(size)
        self.assertEqual(len(data), size)
        return data

    def files(self):
        return {path: os.stat(path).st_mtime_ns for root, _, names in os.walk(self.run) for path in [root] + [os.path.join(root, n) for n in names]}

    def copy(self):
        with open(os.path.join(self.run, "driver.log"), "rb") as f:
            return f.read()

    def test_every_byte_once(self):
        for have in (None, b"", WHOLE[:5], WHOLE[:9000], WHOLE):
            self.assertEqual(self.killed(have), {"size": len(WHOLE), "whole": True})
            self.assertEqual(self.copy(), WHOLE)
            self.assertEqual(os.listdir(self.saved), ["%s.from-%d" % (LOG, len(WHOLE))])
            self.assertEqual(self.salvaged(), {"size": len(WHOLE), "whole": True})  # as often as one likes
            self.assertEqual(self.copy(), WHOLE)

    def test_copy_with_a_hole(self):
        """The disk was full for a while: the copy is no beginning of the log."""
        self.assertEqual(self.killed(WHOLE[:100] + WHOLE[200:300]), {"size": len(WHOLE), "whole": True})
        self.assertEqual(self.copy(), WHOLE)

    def test_behind_what_prepared(self):
        """The copy begins with what job.prepare printed, which is another log; -1: it runs still."""
        lead = b"prepared" * 1000
        for have in (b"", WHOLE[:9000], WHOLE, WHOLE[:100] + WHOLE[200:300]):
            self.assertEqual(self.killed(lead + have, begin=len(lead)), {"size": len(lead + WHOLE), "whole": True})
            self.assertEqual(self.copy(), lead + WHOLE)
            self.assertEqual(os.listdir(self.saved), ["%s.from-%d" % (LOG, len(WHOLE))])
            self.assertEqual(self.salvaged(len(lead)), {"size": len(lead + WHOLE), "whole": True})
        self.assertEqual(self.killed(WHOLE[:9000], begin=-1), {"size": len(WHOLE), "whole": True})

    def test_copy_grew_meanwhile(self):
        """A shared file system showed the supervisor less of the copy than there was."""
        self.killed(WHOLE[:50])
        self.write(os.path.join(self.saved, LOG + ".from-50"), WHOLE[50:])
        self.write(os.path.join(self.run, "driver.log"), WHOLE[:80])
        self.assertEqual(self.salvaged(), {"size": len(WHOLE), "whole": True})
        self.assertEqual(self.copy(), WHOLE)

    def test_nothing_saved(self):
        """The node has ended, or the driver ran on another one."""
        self.assertEqual(self.killed(WHOLE[:50], log=None), {"size": 50, "whole": False})
        self.assertEqual(self.copy(), WHOLE[:50])

    def test_keeper_that_lives(self):
        """It has taken all before it ends its nodes: nothing is written for it."""
        for phase, have in (("Draining", WHOLE), ("Lost", WHOLE[:9]), ("Gone", WHOLE[:9])):
            self.killed(have, phase)
            self.assertFalse(os.path.exists(self.saved))


if __name__ == "__main__":
    unittest.main()
