"""The bare relay: standard input and output, and one connection to a port of this host."""

import os
import socket
import sys
import threading

conn = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def out():
    """From the connection."""
    while True:
        data = conn.recv(1 << 16)
        if not data:
            os._exit(0)
        view = memoryview(data)
        while view:
            view = view[os.write(1, view):]


threading.Thread(target=out, daemon=True).start()
while True:
    given = os.read(0, 1 << 16)
    if not given:
        os._exit(0)
    conn.sendall(given)
