"""Tests for doctor whether nodes of two partitions can connect to each other. `keeper.pyz slurm-reach listen|connect DIRECTORY NETWORK PORTS` runs on a node of each
partition at the same time, with a directory that only this user can read. The listening side writes its address and a secret word into the directory. The other side
connects to that address and listens itself; then the first side connects back, as Ray's nodes connect to one another. Each side prints "ok" or "no" and a sentence. A
file "over" in the directory ends both."""

import json
import os
import secrets
import socket
import time

from rayctl_keeper.host import address
from rayctl_keeper.state.document import write_atomically

PATIENCE = 40.0  # seconds for the other node to begin
CONNECT = 5.0  # seconds for one connection
LOOK = 0.3
LISTENS, OVER = "listens", "over"


def main(arguments):
    """Entry point."""
    side, directory, network, wanted = arguments
    try:
        said = listen(directory, network, wanted) if side == "listen" else connect(directory, network, wanted)
    except OSError as error:
        said = "no " + (str(error) if isinstance(error, address.NoAddress) else "%s: %s" % (address.node(), error))
    print(said, flush=True)
    return 0


def listen(directory, network, wanted):
    """Listens until both nodes have connected to each other; returns the line to print, "" if the other node did not come."""
    own, word = address.own(network), secrets.token_hex(16)
    with server(own, wanted) as s:
        write_atomically(os.path.join(directory, LISTENS), json.dumps([own, s.getsockname()[1], word, address.node()]).encode())
        s.settimeout(LOOK)
        for _ in looks(directory):
            try:
                other, _ = s.accept()
            except socket.timeout:
                continue
            with other:
                if answer(other, word):
                    return "ok"
    return ""


def answer(other, word):
    """Connects to the peer that knows the word, and sends it the result."""
    other.settimeout(CONNECT)
    try:
        said, host, port = other.makefile().readline(200).split()
        if not secrets.compare_digest(said, word):
            return False
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT).close()
            other.sendall(b"ok\n")
        except OSError as error:
            other.sendall(("%s\n" % error).encode())
        return True
    except (OSError, ValueError):  # not the other node of this test
        return False


def connect(directory, network, wanted):
    """Connects to the side that listens, and lets it connect back; returns the line to print."""
    for _ in looks(directory):
        if LISTENS in os.listdir(directory):  # without this, a client of NFS may use a cached answer that the file does not exist
            break
    else:
        return ""
    with open(os.path.join(directory, LISTENS)) as f:
        host, port, word, head = json.load(f)
    own = address.own(network, head="" if network else host)
    here, there = "%s (%s)" % (address.node(), own), "%s (%s)" % (head, host)
    try:
        with server(own, wanted) as s, socket.create_connection((host, port), timeout=CONNECT) as other:
            other.settimeout(3 * CONNECT)
            other.sendall(("%s %s %d\n" % (word, own, s.getsockname()[1])).encode())
            back = other.makefile().readline(200).strip() or "it has ended"
    except OSError as error:
        return "no %s cannot connect to %s: %s" % (here, there, error)
    return "ok %s and %s reach each other" % (there, here) if back == "ok" else "no %s cannot connect to %s: %s" % (there, here, back)


def server(host, wanted):
    """Listens on a port of a range such as "20000-21000"; "": on a port that the system chooses."""
    first, last = (int(number) for number in wanted.split("-")) if wanted else (0, 0)
    for port in range(first, last + 1):
        try:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            problem = error
    raise OSError("cannot listen on %s, ports %s: %s" % (host, wanted or "of the system's choice", problem))


def looks(directory):
    """Yields every LOOK seconds, until the test is over, and for PATIENCE seconds at most."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and OVER not in os.listdir(directory):
        yield
        time.sleep(LOOK)
