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
    def noted(self, files, commit=COMMIT, nodes=("a", "b[1]")):
        """The notes where each of the nodes has these files in its copy."""
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
                    with open(path, "w"):
                        pass
            leftfiles.note(state, directory, commit, found)
        return [event[-1] for event in state.notes]

    def test_named(self):
        (said,) = self.noted(["data/deep/er.txt", "b.pt", "a\nb.pt", "data/out.csv"])
        self.assertEqual(said, "the job wrote 4 files into Ray's copy of its working directory, which is removed with the cluster: a?b.pt, b.pt, data/out.csv, ...; "
                               "results belong in $RAYCTL_OUTPUT_DIR")
        (said,) = self.noted(["model.pt"])
        self.assertIn("wrote 1 file into", said)

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
