"""The words of a run's model are in one place, state/model.py: the other code has them by name. Run by `go test ./keeper`."""

import ast
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
ROOT = os.path.join(os.path.dirname(HERE), "rayctl_keeper")

from rayctl_keeper.state import model


def words(*classes):
    """The words of some classes of the model."""
    return {word for c in classes for name, word in vars(c).items() if not name.startswith("_")}


STATES = words(model.JobState, model.NodeState, model.AllocationState)
# Words that also mean something else, such as limits and parts of documents: they are the model's only beside a field, a function or a variable that has nothing else.
COMMON = words(model.Origin, model.Purpose, model.Event) | {model.Cause.IDLE, model.Cause.MAX, model.Cause.TOTAL, model.Cause.QUEUE}
ALWAYS = (words(model.Phase, model.Cause, model.Reason) | STATES) - COMMON
KEYS = words(model.AllocationState)  # also the names of an allocation's times
FIELDS = {
    "phase": words(model.Phase), "cause": words(model.Cause), "origin": words(model.Origin), "purpose": words(model.Purpose), "event": words(model.Event),
    "kind": words(model.Event), "_kind": words(model.Event),
}
CALLS = {  # what has such a word as its first argument
    "End": words(model.Cause), "Verdict": words(model.Cause), "phase": words(model.Phase), "note": words(model.Event), "program": words(model.Event),
    "change_program": words(model.Event),
}
# Slurm's words for its jobs; elsewhere these are Ray's, as the model has them.
OF_SLURM, IN_SLURM = words(model.JobState), ("slurm/companions/", "slurm/controller/")
OTHERS = {  # words that are not the model's, and how often a file has them
    ("run/limits/idle.py", "RUNNING"): 1,  # Ray's state of a task
    ("run/limits/idle.py", "ALIVE"): 1,  # and of an actor
    ("run/limits/idle.py", "succeeded"): 1,  # the name of a field
    ("run/end/warned.py", "Draining"): 1,  # a node, not the cluster
    ("http/api.py", "granted"): 1,  # the name of a request
    ("kubernetes/record.py", "queued"): 1,  # the name of a field
}


def text(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def index(node):
    """What stands in the brackets of a subscript, which Python 3.8 wraps."""
    return getattr(node.slice, "value", None) if node.slice.__class__.__name__ == "Index" else node.slice


def field(node):
    """The name of the field, attribute or variable that an expression reads."""
    if isinstance(node, ast.Subscript):
        return text(index(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return text(node.args[0])
    return getattr(node, "attr", getattr(node, "id", None))


def names(tree):
    """The strings of a file that name a field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            yield index(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop", "setdefault"):
            yield from node.args[:1]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            yield node.left
        elif isinstance(node, ast.Dict):
            yield from (key for key in node.keys if text(key) in KEYS)


def pairs(tree):
    """Names of fields and of called functions, each with an expression that it is given or compared with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from ((FIELDS.get(text(key)), value) for key, value in zip(node.keys, node.values))
        elif isinstance(node, ast.Compare):
            sides = [node.left] + node.comparators
            yield from ((FIELDS.get(field(one)), other) for one in sides for other in sides)
        elif isinstance(node, ast.Assign):
            yield from ((FIELDS.get(field(target)), node.value) for target in node.targets)
        elif isinstance(node, ast.keyword):
            yield FIELDS.get(node.arg), node.value
        elif isinstance(node, ast.arguments):
            given = node.args[len(node.args) - len(node.defaults):] + node.kwonlyargs
            yield from ((FIELDS.get(a.arg), value) for a, value in zip(given, node.defaults + node.kw_defaults) if value)
        elif isinstance(node, ast.Call) and node.args:
            yield CALLS.get(getattr(node.func, "attr", getattr(node.func, "id", None))), node.args[0]


def literals(path, source):
    """The literals of a file that are words of the model, as (line, word)."""
    tree = ast.parse(source)
    fields, found = {id(n) for n in names(tree)}, {}
    for node in ast.walk(tree):
        word = text(node)
        if word in ALWAYS and id(node) not in fields and not (word in OF_SLURM and path.startswith(IN_SLURM)):
            found[id(node)] = node
    for known, expression in pairs(tree):
        for node in ast.walk(expression) if known else ():
            if text(node) in known and id(node) not in fields:
                found[id(node)] = node
    return sorted((node.lineno, node.value) for node in found.values())


def files():
    for folder, _, names in os.walk(ROOT):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and not path.endswith(os.path.join("state", "model.py")):
                with open(path, encoding="utf-8") as f:
                    yield os.path.relpath(path, ROOT).replace(os.sep, "/"), f.read()


class Words(unittest.TestCase):
    def test_product(self):
        left = dict(OTHERS)
        for path, source in files():
            for line, word in literals(path, source):
                left[path, word] = left.get((path, word), 0) - 1
                self.assertGreaterEqual(left[path, word], 0, "%s:%d: %r is a word of state/model.py" % (path, line, word))
        self.assertEqual({key: count for key, count in left.items() if count > 0}, {}, "OTHERS has more than the code")

    def test_found(self):
        for source, count in (
            ('End("queue", "")', 1), ('limits.begin("queue")', 0), ('x = "lost"', 1), ('f(doc["queued"], doc.get("released"))', 0), ('a = {"queued": 1}', 0),
            ('{"state": "queued"}', 1), ('{"lost": 1}', 1), ('e["event"] == "phase" and e.get("to") == "Gone"', 2), ('end.cause in ("max", "total")', 2),
            ('f(kind="job")', 1), ('def f(a, kind="job"): pass', 1), ('state.note("node", "")', 1), ('state.note("commit", "")', 0), ('doc["job"]["state"]', 0),
            ('cause = "preempted" if x else "max"', 2), ('"origin" in doc', 0), ('x["purpose"] = "main"', 1), ('state == "ALIVE"', 1), ('"job"', 0),
        ):
            self.assertEqual(len(literals("run/life.py", source)), count, source)
        self.assertEqual(literals("slurm/controller/listing.py", 'job.state == "PENDING"'), [])


if __name__ == "__main__":
    unittest.main()
