"""File systems whose files have one name only. Run by `go test ./keeper`, as whose processes race for one name."""

import base64
import errno
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.slurm.attempts import after
from rayctl_keeper.slurm.batch import start

# What os.link does on exFAT (EPERM, tried there), CIFS and BeeGFS (EOPNOTSUPP), AFS (EXDEV) and where a file has too many names (EMLINK).
REFUSALS = (errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EMLINK)

# A client's session, without links: it writes its argument into a file that nobody may have yet.
SESSION = """
import os, sys, errno
def refuse(*_):
    raise OSError(errno.EPERM, "Operation not permitted")
os.link = refuse
text = "".join(open(os.path.join(sys.argv[1], name)).read() + "\\n" for name in ("rayctl_keeper/state/model.py", "rayctl_keeper/slurm/attempts/after.py", "rayctl_keeper/run/shared.py", "slurm_files.py"))
names = {"__name__": "site"}
exec(compile(text, "site", "exec"), names)
names["TURN_LIMIT"] = float(sys.argv[5])
try:
    names["write"]({"path": sys.argv[2], "first": True, "last": True, "exclusive": True, "tag": sys.argv[3], "data": sys.argv[4]})
    print("written")
except FileExistsError:
    print("taken")
"""


class Links(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, text, *names):
        os.makedirs(os.path.dirname(self.path(*names)), exist_ok=True)
        with open(self.path(*names), "w") as f:
            f.write(text)

    def read(self, *names):
        with open(self.path(*names)) as f:
            return f.read()

    def test_copies(self):
        for number in REFUSALS:
            with self.subTest(errno.errorcode[number]), mock.patch("os.link", side_effect=OSError(number, os.strerror(number))):
                run = errno.errorcode[number]
                self.write("secret", run, "1", "token")
                self.write("said", run, "1", "driver.log")
                os.mkdir(self.path(run, "2"))
                start.keep_seed(self.path(run), self.path(run, "1"))
                start.keep_seed(self.path(run), self.path(run, "1"))  # again: what is there stays
                start.keep_logs(self.path(run, "1"), self.path(run, "2"), 1)
                self.assertEqual((self.read(run, "seed", "token"), self.read(run, "2", "driver-1.log")), ("secret", "said"))
                self.assertEqual(os.stat(self.path(run, "seed", "token")).st_mode & 0o777, 0o600)
                self.assertEqual(sorted(os.listdir(self.path(run, "seed"))), ["token"])

    def test_other_errors(self):
        self.write("x", "a")
        with mock.patch("os.link", side_effect=OSError(errno.ENOSPC, "full")), self.assertRaises(OSError):
            after.also_called(self.path("a"), self.path("b"))

    def race(self, many, limit=60.0):
        sessions = [subprocess.Popen([sys.executable, "-c", SESSION, os.path.dirname(HERE), self.path("record"), str(n), base64.b64encode(b"%d" % n).decode(), str(limit)],
                                     stdout=subprocess.PIPE) for n in range(many)]
        return [session.communicate()[0].decode().strip() for session in sessions]

    def test_one_has_the_name(self):
        said = self.race(8)
        self.assertEqual(sorted(said), ["taken"] * 7 + ["written"])
        self.assertEqual(self.read("record"), str(said.index("written")))
        self.assertEqual(os.listdir(self.dir), ["record"])

    def test_dead_turn(self):
        self.write("", "record.turn")
        self.assertEqual(self.race(1, 0.2), ["written"])
        self.assertEqual(os.listdir(self.dir), ["record"])


if __name__ == "__main__":
    unittest.main()
