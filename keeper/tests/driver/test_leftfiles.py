"""Files that a job leaves in its copy of the working directory. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import leftfiles
from rayctl_keeper.node.files import nodedir

COMMIT = {"packages": [{"uri": "gcs://_ray_pkg_m.zip", "file": "package-m.zip"}, {"uri": "gcs://_ray_pkg_w.zip", "file": "package-w.zip"}],
          "runtimeEnv": {"working_dir": "gcs://_ray_pkg_w.zip", "py_modules": ["gcs://_ray_pkg_m.zip"]}}


class State:
    def __init__(self):
        self.notes = []

    def note(self, *event):
        self.notes.append(event)


class LeftFiles(unittest.TestCase):
    def noted(self, files, commit=COMMIT, nodes=("a", "b[1]"), output="", before=None, after=None):
        """The notes where each of the nodes has these files in its copy. before and after get the directory, in which output is."""
        state = State()
        with tempfile.TemporaryDirectory() as directory:
            with zipfile.ZipFile(os.path.join(directory, "package-w.zip"), "w") as archive:
                archive.writestr("main.py", "")
                archive.writestr("data/", "")
                archive.writestr("data/in.csv", "")
            found = [os.path.join(directory, name) for name in nodes]
            for node in found:
                for name in ("main.py", "data/in.csv", "data/__pycache__/x.cpython-311.pyc") + tuple(files):
                    path = os.path.join(nodedir.rays(node), "session_2026", "runtime_resources", "working_dir_files", "_ray_pkg_w", name)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "w") as file:
                        file.write(os.path.basename(node))
            if before:
                before(directory)
            leftfiles.keep(state, directory, commit, found, output and os.path.join(directory, output))
            if after:
                after(directory)
        return [event[-1] for event in state.notes]

    def test_named(self):
        (said,) = self.noted(["data/deep/er.txt", "b.pt", "a\nb.pt", "data/out.csv"])
        self.assertEqual(said, "the job wrote 4 files into Ray's copy of its working directory, which is removed with the cluster: a?b.pt, b.pt, data/out.csv, ...; "
                               "results belong in $RAYCTL_OUTPUT_DIR")
        (said,) = self.noted(["model.pt"])
        self.assertIn("wrote 1 file into", said)

    def test_kept(self):
        def look(directory):
            kept = os.path.join(directory, "out", "working-dir")
            self.assertEqual(sorted(os.path.relpath(os.path.join(d, f), kept) for d, _, files in os.walk(kept) for f in files), ["b.pt", "data/deep/er.txt"])
            with open(os.path.join(kept, "b.pt")) as file:
                self.assertEqual(file.read(), "a")  # of the first node
        (said,) = self.noted(["data/deep/er.txt", "b.pt"], output="out", after=look)
        self.assertIn("is removed with the cluster: b.pt, data/deep/er.txt; they are kept in working-dir/ of $RAYCTL_OUTPUT_DIR (/", said)
        self.assertTrue(said.endswith("/out/working-dir)"), said)
        (said,) = self.noted(["b.pt"], output="out")
        self.assertIn("it is kept in", said)

    def test_kept_of_links(self):
        """Nothing is read through a link, written through one, or replaced."""
        def before(directory):
            copy = os.path.join(nodedir.rays(os.path.join(directory, "a")), "session_2026", "runtime_resources", "working_dir_files", "_ray_pkg_w")
            os.makedirs(os.path.join(directory, "elsewhere"))
            os.symlink("/etc/hostname", os.path.join(copy, "link"))
            os.symlink("/etc", os.path.join(copy, "links"))
            os.mkfifo(os.path.join(copy, "fifo"))
            os.makedirs(os.path.join(directory, "out", "working-dir"))
            os.symlink(os.path.join(directory, "elsewhere"), os.path.join(directory, "out", "working-dir", "sub"))
            with open(os.path.join(directory, "out", "working-dir", "mine"), "w") as file:
                file.write("mine")
            with open(os.path.join(directory, "out", "working-dir", "taken.part-%d" % os.getpid()), "w"):
                pass  # the name under which a copy of "taken" would begin

        def after(directory):
            kept = os.path.join(directory, "out", "working-dir")
            self.assertEqual(sorted(os.listdir(kept)), ["good", "mine", "sub", "taken.part-%d" % os.getpid()])
            self.assertEqual(os.listdir(os.path.join(directory, "elsewhere")), [])
            with open(os.path.join(kept, "mine")) as file:
                self.assertEqual(file.read(), "mine")
        (said,) = self.noted(["good", "mine", "sub/x", "taken"], nodes=("a",), output="out", before=before, after=after)
        self.assertIn("the job wrote 6 files", said)
        self.assertIn("1 of them are kept in", said)

    def test_kept_bounded(self):
        with unittest.mock.patch.object(leftfiles, "MOST_KEPT", 2):
            (said,) = self.noted(["1", "2", "3"], nodes=("a",), output="out")
        self.assertIn("2 of them are kept", said)
        with unittest.mock.patch.object(leftfiles, "MOST_BYTES", 2):  # each has one byte
            (said,) = self.noted(["1", "2", "3"], nodes=("a",), output="out")
        self.assertIn("2 of them are kept", said)

    def test_nothing(self):
        self.assertEqual(self.noted([]), [])
        self.assertEqual(self.noted(["x"], commit=None), [])
        self.assertEqual(self.noted(["x"], commit={"packages": [], "runtimeEnv": {"working_dir": "s3://bucket/w.zip"}}), [])
        self.assertEqual(self.noted(["x"], nodes=()), [])

    def test_many(self):
        with unittest.mock.patch.object(leftfiles, "MOST", 6):
            (said,) = self.noted(["%d.txt" % i for i in range(20)], nodes=("a",))
        self.assertIn("wrote more than ", said)


if __name__ == "__main__":
    unittest.main()
