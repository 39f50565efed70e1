"""What a group may read of a run. Run by `go test ./keeper`. That other users really cannot read more is a test of test/e2e."""

import json
import os
import stat
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.run import shared


class Shared(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run, self.top = os.path.join(directory.name, "run"), os.path.join(directory.name, "team")
        os.mkdir(self.run, 0o700)
        os.mkdir(self.top, 0o775)
        self.place = os.path.join(self.top, "x")
        self.logged = []
        old = os.umask(0o077)  # as the keeper's
        self.addCleanup(os.umask, old)

    def write(self, name, text, mode="w"):
        with open(os.path.join(self.run, name), mode) as f:
            f.write(text)

    def read(self, name):
        with open(os.path.join(self.place, name)) as f:
            return f.read()

    def orders(self, **more):
        return dict({"name": "x", "shareDir": self.top}, **more)

    def test_copies(self):
        for name in ("token", "secrets.json", "orders.json", "record.json", "commit", "keeper.log", "package-1.zip", "state.json.12.tmp", "driver-a.log"):
            self.write(name, "private")
        self.write("driver.log", "one\n")
        self.write("state.json", "{}")
        copies = shared.Copies(self.run, self.top, "x")
        copies.copy()
        self.assertEqual(sorted(os.listdir(self.place)), ["driver.log", "state.json"])
        self.write("driver.log", "two\n", "a")
        self.write("state.json", '{"revision": 2}')
        copies.copy()
        self.assertEqual((self.read("driver.log"), self.read("state.json")), ("one\ntwo\n", '{"revision": 2}'))
        os.rename(os.path.join(self.run, "driver.log"), os.path.join(self.run, "driver-1.log"))  # the next attempt
        self.write("driver.log", "three\n")
        self.write("result.json", "{}")
        copies.copy()
        self.assertEqual((self.read("driver-1.log"), self.read("driver.log")), ("one\ntwo\n", "three\n"))
        for name in os.listdir(self.place):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.place, name)).st_mode), 0o640, name)
        self.assertEqual(stat.S_IMODE(os.stat(self.place).st_mode), 0o750)

    def test_another_run_of_the_name(self):
        self.write("driver.log", "old\n")
        self.write("result.json", "{}")
        shared.Copies(self.run, self.top, "x").copy()
        for name in ("driver.log", "result.json"):
            os.unlink(os.path.join(self.run, name))
        self.write("state.json", "{}")
        shared.Copies(self.run, self.top, "x").copy()
        self.assertEqual(os.listdir(self.place), ["state.json"])

    def test_links(self):
        prey = os.path.join(os.path.dirname(self.run), "prey")
        with open(prey, "w") as f:
            f.write("mine")
        os.symlink(os.path.dirname(self.run), self.place)
        with self.assertRaises(shared.NotShared):  # of the directory
            shared.Copies(self.run, self.top, "x")
        os.unlink(self.place)
        os.mkdir(self.place, 0o777)
        for name in ("driver.log", "driver.log.part", "state.json"):
            os.symlink(prey, os.path.join(self.place, name))
        self.write("driver.log", "one\n")
        self.write("state.json", "{}")
        copies = shared.Copies(self.run, self.top, "x")
        copies.copy()
        os.rename(self.place, self.place + ".old")  # by somebody who may write to the directory above
        os.symlink(os.path.dirname(self.run), self.place)
        self.write("driver.log", "two\n", "a")
        copies.copy()
        with open(prey) as f:
            self.assertEqual(f.read(), "mine")
        with open(os.path.join(self.place + ".old", "driver.log")) as f:
            self.assertEqual(f.read(), "one\ntwo\n")
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.run), "driver.log")))

    def test_refused(self):
        for directory, why in ((os.path.join(self.top, "nosuch"), "make the directory"), (os.path.join(self.run, "file"), "make the directory")):
            self.write("file", "")
            sharing = shared.Sharing(self.orders(shareDir=directory), self.run, self.logged.append)
            self.assertIn(why, sharing.failure)
        if os.geteuid() == 0:
            os.mkdir(self.place)
            os.chown(self.place, 12345, 12345)
            self.assertIn("belongs to user 12345", shared.Sharing(self.orders(), self.run, self.logged.append).failure)

    def test_beside_the_keeper(self):
        sharing = shared.Sharing(self.orders(), self.run, self.logged.append)
        self.assertIsNone(sharing.failure)
        self.write("driver.log", "one\n")
        sharing.catch_up()
        self.assertEqual(self.read("driver.log"), "one\n")
        self.write("result.json", "{}")
        sharing.end()
        self.assertEqual((self.read("result.json"), self.logged), ("{}", []))
        nothing = shared.Sharing({"name": "x"}, self.run, self.logged.append)
        nothing.end()
        self.assertEqual(self.logged, [])

    def test_for_a_dead_keeper(self):
        self.write("driver.log", "all\n")
        self.write("result.json", "{}")
        self.write("orders.json", json.dumps(self.orders()))
        self.assertEqual(shared.share({"attempt": self.run}), {"failed": ""})
        self.assertEqual((self.read("driver.log"), self.read("result.json")), ("all\n", "{}"))
        self.write("orders.json", json.dumps(self.orders(shareDir="/nosuch")))
        self.assertEqual(shared.main([self.run]), 1)


if __name__ == "__main__":
    unittest.main()
