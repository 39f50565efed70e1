"""A node's own directory among those of hostile users. Run by `go test ./keeper`."""

import os
import stat
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node.files import nodedir

TAKEN, FREE = b"\0\0\0\1", b"\0\0\0\2"


class Directory(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name

    def test_only_ours(self):
        made = nodedir.make(self.root)
        self.assertEqual((os.path.dirname(made), len(os.path.basename(made))), (self.root, len("r12345678")))
        self.assertEqual(stat.S_IMODE(os.lstat(made).st_mode), 0o700)
        os.chmod(nodedir.rays(made), 0o777)  # as Ray does
        self.assertEqual(os.path.dirname(nodedir.rays(made)), made)
        self.assertNotEqual(made, nodedir.make(self.root))

    def test_a_name_that_is_taken(self):
        """By a directory, a file, a link to a directory and a link to nowhere: another name is chosen, what is there is not touched."""
        name, trap = os.path.join(self.root, "r" + TAKEN.hex()), os.path.join(self.root, "trap")
        os.mkdir(trap, 0o777)
        for prepare in (lambda: os.mkdir(name, 0o777), lambda: open(name, "w").close(), lambda: os.symlink(trap, name),
                        lambda: os.symlink("nowhere", name)):
            prepare()
            before = os.lstat(name)
            with unittest.mock.patch("os.urandom", side_effect=[TAKEN, TAKEN, FREE]):
                made = nodedir.make(self.root)
            self.assertEqual(os.path.basename(made), "r" + FREE.hex())
            self.assertEqual((os.lstat(name).st_ino, os.listdir(trap)), (before.st_ino, []))
            os.rmdir(nodedir.rays(made))
            os.rmdir(made)
            os.unlink(name) if not stat.S_ISDIR(before.st_mode) else os.rmdir(name)
        with unittest.mock.patch("os.urandom", return_value=TAKEN), self.assertRaises(FileExistsError):
            os.mkdir(name)
            nodedir.make(self.root)

    def test_spilled_objects(self):
        """They are in a directory of the node's own elsewhere, which goes with the node's; a link that is not ours is not followed."""
        target = os.path.join(self.root, "disk", "spilled")
        made = nodedir.make(self.root)
        nodedir.spill_into(made, target)
        self.assertEqual(os.listdir(target), [os.path.basename(made)])
        self.assertEqual(stat.S_IMODE(os.lstat(nodedir.spilled(made, target)).st_mode), 0o700)
        open(os.path.join(nodedir.spilled(made, target), "object"), "w").close()
        nodedir.remove(made)
        self.assertEqual((os.path.exists(made), os.listdir(target)), (False, []))
        other = nodedir.make(self.root)
        os.symlink(target, os.path.join(other, nodedir.SPILLED))
        nodedir.remove(other)
        self.assertEqual((os.path.exists(other), os.path.isdir(target)), (False, True))
        nodedir.remove(other)

    def test_a_root_that_others_may_change(self):
        below = os.path.join(self.root, "below")
        os.mkdir(below)
        for mode, fine in ((0o777, False), (0o1777, True), (0o755, True)):
            os.chmod(self.root, mode)
            for root in (self.root, below):
                if fine:
                    nodedir.make(root)
                else:
                    with self.assertRaisesRegex(PermissionError, "^%s can be changed by every user" % self.root):
                        nodedir.make(root)
        os.symlink(below, os.path.join(self.root, "link"))
        os.chmod(below, 0o777)
        with self.assertRaisesRegex(PermissionError, "^%s can be changed" % below):
            nodedir.make(os.path.join(self.root, "link"))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a directory away")
    def test_a_root_of_somebody_else(self):
        os.chown(self.root, 12345, -1)
        with self.assertRaisesRegex(PermissionError, "belongs to another user \\(uid 12345\\)"):
            nodedir.make(self.root)


if __name__ == "__main__":
    unittest.main()
