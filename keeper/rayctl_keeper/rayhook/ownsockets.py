"""Gives each node's raylet and object store sockets in the node's own directory. Ray before 2.60 gives all nodes the session directory of the head, also those that have a
--temp-dir, and two that start at once on one host choose the same names there ("bind: Address already in use"). It looks whether a name is free, and binds it later."""

import os
from importlib import metadata


def change(directory):
    """Changes it in this process, where Ray is one that needs that. directory: the node's."""
    try:
        if not directory or tuple(int(part) for part in metadata.version("ray").split(".")[:2]) >= (2, 60):
            return
        from ray._private.node import Node
        prepare = Node._prepare_socket_file
    except (ImportError, AttributeError, ValueError):
        return  # another Ray
    Node._prepare_socket_file = lambda node, path, default_prefix: prepare(node, path or os.path.join(directory, default_prefix), default_prefix)
