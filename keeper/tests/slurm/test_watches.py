"""How often a client's session looks at files that it watches. Run by `go test ./keeper`."""

import os
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def session():
    """The program that clients run on the login node."""
    text = ""
    for name in ("rayctl_keeper/state/model.py", "rayctl_keeper/slurm/attempts/after.py", "rayctl_keeper/run/shared.py", "slurm_files.py"):
        with open(os.path.join(os.path.dirname(HERE), name)) as f:
            text += f.read() + "\n"
    names = {"__name__": "site"}
    exec(compile(text, "site", "exec"), names)
    return names


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


class Watches(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "current")
        self.names, self.clock, self.told, self.stats = session(), Clock(), [], 0
        self.names["time"] = self.clock
        self.names["answer"] = lambda number, fields: self.told.append(number)
        stamp = self.names["stamp"]
        self.names["stamp"] = lambda path: (self.count(), stamp(path))[1]
        self.watches = self.names["Watches"]()

    def count(self):
        self.stats += 1

    def pass_time(self, seconds):
        """As main does it; returns how many files were looked at."""
        before, until = self.stats, self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now += max(self.watches.rest(), 0.001)
            self.watches.look()
        return self.stats - before

    def test_pace(self):
        self.assertIsNone(self.watches.rest())
        self.watches.start(1, [self.path])
        self.assertEqual(self.watches.rest(), 0.0)  # the first answer follows at once
        self.watches.look()
        self.assertEqual(self.told, [1])
        self.assertGreaterEqual(self.pass_time(10), 45)  # five times a second while things happen
        self.pass_time(3600)
        self.assertLessEqual(self.pass_time(60), 13)  # seldom where nothing happens
        with open(self.path, "w") as f:
            f.write("1")
        self.pass_time(5.1)
        self.assertEqual(self.told, [1, 1])
        self.assertGreaterEqual(self.pass_time(10), 45)  # and often again


if __name__ == "__main__":
    unittest.main()
