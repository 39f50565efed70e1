"""Prints the strings of a tree of Python files that are no docstrings, each ended by NUL."""

import ast
import os
import sys

for folder, _, files in os.walk(sys.argv[1]):
    for name in files:
        if not name.endswith(".py"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            tree = ast.parse(f.read())
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for n in ast.walk(tree):
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs:
                sys.stdout.write(n.value + "\0")
