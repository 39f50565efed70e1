"""A server to measure ways with: prints its port. A connection's first byte chooses what it does: e echoes, s sends as many bytes as the line requests."""

import socket
import threading


def serve(conn):
    """One connection."""
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    kind = conn.recv(1)
    if kind == b"e":
        while True:
            data = conn.recv(1 << 16)
            if not data:
                break
            conn.sendall(data)
    elif kind == b"s":
        line = conn.makefile("rb").readline()
        conn.sendall(b"\0" * int(line))
        conn.recv(1)  # until the other end has all
    conn.close()


server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
