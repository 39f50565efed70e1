"""What many followers of one output cost the keeper: python3 test/bench/followers.py FOLLOWERS MEGABYTES [SECONDS]

Serves the keeper's API in this process, writes a driver's log at once or over so many seconds, and prints this process' processor time and peak memory. Another process follows."""

import os
import resource
import selectors
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "keeper"))

from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.host import descriptors
from rayctl_keeper.http import api
from rayctl_keeper.node.files import nodedir

REQUEST = b"GET /v1/log?follow=1&attempt=1 HTTP/1.1\r\nHost: keeper\r\nAuthorization: Bearer secret\r\n\r\n"
LINE = b"x" * 99 + b"\n"


class State:
    """Of the keeper's document what the API asks for."""

    def __init__(self):
        self.doc = {"attempt": 1}

    def left(self, _connection):
        pass

    def answering(self, _count):
        pass


def follow(address, followers, ready):
    """Reads all outputs to their end; exits with 0 if each has all bytes."""
    connections, got = selectors.DefaultSelector(), {}
    for _ in range(followers):
        connection = socket.create_connection(address)
        connection.sendall(REQUEST)
        connections.register(connection, selectors.EVENT_READ)
        got[connection] = 0
    os.write(ready, b"1")
    while connections.get_map():
        for key, _ in connections.select():
            block = key.fileobj.recv(1 << 20)
            got[key.fileobj] += len(block)
            if not block or block.endswith(b"0\r\n\r\n"):
                connections.unregister(key.fileobj)
    return min(got.values())


def main():
    followers, size, seconds = int(sys.argv[1]), int(sys.argv[2]) * 1000000, float(sys.argv[3]) if len(sys.argv) > 3 else 0
    descriptors.raise_limit()
    with tempfile.TemporaryDirectory() as top:
        node = os.path.join(top, "node")
        logs = os.path.join(nodedir.rays(node), "session_2026", "logs")
        os.makedirs(logs)
        log = DriverLog(top, None, lambda text: None)
        address = api.serve("127.0.0.1:0", "secret", top, State(), log, None)
        begun, ready = os.pipe()
        child = os.fork()
        if child == 0:
            os._exit(0 if follow(address, followers, ready) >= size else 1)
        os.read(begun, 1)
        threading.Event().wait(1)  # until all requests are served
        before, pieces = time.process_time(), size // (100 * len(LINE))
        with open(os.path.join(logs, "job-driver-n-1.log"), "ab", buffering=0) as f:
            log.begin("job-driver-n-1.log", "node", [node], stream=True)
            for _ in range(pieces):
                f.write(LINE * 100)
                time.sleep(seconds / pieces)
            log.finish(reachable=True)
        log.close()
        whole = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print("%d followers, %d bytes in %g s: %.2f s of processor time, at most %d MB of memory%s" % (
            followers, size, seconds, time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "" if whole else "; SOME GOT LESS"))
        return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
