"""Packages import only what stands further down. Run by `go test ./keeper`."""

import ast
import os
import unittest

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rayctl_keeper")
# From the top; what shares a line knows nothing of the other.
LAYERS = (("slurm", "kubernetes"), ("run",), ("http", "driver"), ("node",), ("rayhook", "ray"), ("state", "host"), ("program",))


def rank(package):
    return next(i for i, layer in enumerate(LAYERS) if package in layer)


class Imports(unittest.TestCase):
    def test_point_down(self):
        for package in sorted(name for name in os.listdir(ROOT) if os.path.isdir(os.path.join(ROOT, name)) and name != "__pycache__"):
            for name in (n for n in os.listdir(os.path.join(ROOT, package)) if n.endswith(".py")):
                with open(os.path.join(ROOT, package, name)) as f:
                    tree = ast.parse(f.read())
                for node in ast.walk(tree):
                    if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "rayctl_keeper":
                        parts = node.module.split(".")
                        for other in parts[1:2] or [alias.name for alias in node.names]:
                            self.assertTrue(other == package or rank(other) > rank(package), "%s/%s imports %s" % (package, name, other))


if __name__ == "__main__":
    unittest.main()
