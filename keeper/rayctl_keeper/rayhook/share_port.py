"""Runs one of Ray's agents: `python share_port.py AGENT ARGUMENTS...` is `python AGENT ARGUMENTS...`, but its servers may have the ports that reserve.py reserved for
them. It is copied to the node's directory, and imports nothing of ours.
"""

import os
import runpy
import socket
import sys

PORTS = {int(value) for value in (argument.partition("-port=")[2] for argument in sys.argv) if value.isdigit()} - {0}
OPTION = ("grpc.so_reuseport", 0)  # Ray's dashboard agent sets it; gRPC itself would share
bind = socket.socket.bind


def bind_shared(self, address):
    """socket.bind for one of these ports."""
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[1] in PORTS:
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return bind(self, address)


def share_grpc():
    """gRPC binds without Python's sockets."""
    from grpc import aio
    make = aio.server

    def server(*args, **kwargs):
        kwargs["options"] = tuple(option for option in kwargs.get("options") or () if option != OPTION)
        return make(*args, **kwargs)

    aio.server = server


if __name__ == "__main__":
    socket.socket.bind = bind_shared
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    if any(argument.startswith("--grpc-port=") for argument in sys.argv):
        try:
            share_grpc()
        except ImportError:
            pass  # a minimal agent
    runpy.run_path(sys.argv[0], run_name="__main__")
