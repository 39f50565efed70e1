"""Checkpoints: one file, replaced as a whole, so that a reader finds the old one or the new one."""

import os

import numpy as np

NAME = "checkpoint.npz"


def save(folder, step, state):
    """Writes step and state, a tree of dicts with arrays as leaves, into folder."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, NAME)
    temporary = f"{path}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, step=step, **_flatten(state))
            file.flush()
            os.fsync(file.fileno())  # the name must never stand for a file whose bytes are not there yet
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def load(folder):
    """The step and the state last saved in folder, or None."""
    try:
        with np.load(os.path.join(folder, NAME)) as file:
            arrays = dict(file)
    except FileNotFoundError:
        return None
    return int(arrays.pop("step")), _unflatten(arrays)


def _flatten(tree, prefix=""):
    flat = {}
    for name, value in tree.items():
        flat |= _flatten(value, f"{prefix}{name}/") if isinstance(value, dict) else {prefix + name: value}
    return flat


def _unflatten(flat):
    tree = {}
    for path, value in flat.items():
        *folders, name = path.split("/")
        branch = tree
        for folder in folders:
            branch = branch.setdefault(folder, {})
        branch[name] = value
    return tree
