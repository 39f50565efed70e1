"""Packages import only what stands further down. Run by `go test ./keeper`."""

import ast
import os
import unittest

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rayctl_keeper")
# From the top; what shares a line knows nothing of the other. docs/keeper.md has the same order.
LAYERS = (
    ("kubernetes", "slurm.batch", "slurm.doctor", "slurm.access"), ("slurm.companions",), ("slurm.attempts",), ("slurm.controller",),
    ("run",), ("run.elastic", "run.end", "run.job"), ("run.gang",), ("run.head", "run.nodes", "run.limits", "run.allocations"),
    ("http", "driver"),
    ("node",), ("node.start",), ("node.gpus", "node.groups", "node.files"),
    ("rayhook", "ray"), ("state", "host"), ("program",), ("ranks",),
)


def folders():
    """The packages, each with the names of its files."""
    for folder, _, names in os.walk(ROOT):
        files = [name for name in names if name.endswith(".py")]
        if files and folder != ROOT:
            yield os.path.relpath(folder, ROOT).replace(os.sep, "."), folder, files


def rank(package):
    return next(i for i, layer in enumerate(LAYERS) if package in layer)


def imported(path):
    """The modules of ours that a file imports, without the name of the whole."""
    with open(path) as f:
        tree = ast.parse(f.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "rayctl_keeper":
            module = node.module.partition(".")[2]
            for alias in node.names:
                name = (module + "." + alias.name).strip(".")
                yield name if os.path.exists(os.path.join(ROOT, *name.split(".")) + ".py") else module


class Imports(unittest.TestCase):
    def test_point_down(self):
        for package, folder, files in folders():
            for name in files:
                for module in imported(os.path.join(folder, name)):
                    other = module.rpartition(".")[0] or module
                    self.assertTrue(other == package or rank(other) > rank(package), "%s/%s imports %s" % (package, name, module))


if __name__ == "__main__":
    unittest.main()
