"""docs/keeper.md names the roles, the packages with their modules, and the calls of the API as they are. Run by `go test ./keeper`."""

import ast
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
KEEPER = os.path.dirname(HERE)
sys.path[:0] = [HERE, KEEPER]

from test_imports import LAYERS, ROOT


def read(*path):
    with open(os.path.join(KEEPER, *path), encoding="utf-8") as f:
        return f.read()


PAGE = read("..", "docs", "keeper.md")


def part(begin, end):
    """The page's text between two that it has."""
    return PAGE[PAGE.index(begin):PAGE.index(end, PAGE.index(begin))]


def modules(package):
    return {name[:-3] for name in os.listdir(os.path.join(ROOT, *package.split("."))) if name.endswith(".py") and name != "__init__.py"}


class Docs(unittest.TestCase):
    def test_roles(self):
        roles = next(ast.literal_eval(n.value) for n in ast.parse(read("__main__.py")).body if isinstance(n, ast.Assign) and n.targets[0].id == "ROLES")
        self.assertEqual(set(re.findall("`([a-z-]+)`", part("lists the roles:", "One process starts another"))), set(roles))

    def test_packages(self):
        rows = re.findall(r"^\| `([a-z.]+)` \| (.*) \|$", part("| package | modules |", "### Shared copies"), re.M)
        self.assertEqual([package for package, _ in rows], [package for layer in LAYERS for package in layer if package != "program"])
        for package, text in rows:
            self.assertEqual(modules(package) - set(re.findall("`([a-z_]+)`", text)), set(), package)

    def test_calls(self):
        calls = set(re.findall(r"^\| `(?:GET|PUT|POST) (/v1/[a-z]+)", part("## HTTP API", "## State document"), re.M))
        code = set(re.findall('"(/v1/[a-z]+)[/"]', read("rayctl_keeper", "http", "api.py") + read("rayctl_keeper", "kubernetes", "pod.py")))
        self.assertEqual(calls, code)


if __name__ == "__main__":
    unittest.main()
