"""Watches whether the cluster's head still exists. Nodes in separate Slurm jobs do this, because they must end with the head, even if the keeper was killed."""

import socket
import time

from rayctl_keeper.host import address

FIRST = 8.0  # seconds for the first connection
LOST = 2  # failed connections in a row after which the head counts as lost
PAUSE = 1.0  # seconds between these connections
SILENT = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 0), 20),
          (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPINTVL", 0), 5), (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPCNT", 0), 4))


class NotReached(OSError):
    """This node could not connect to the head. The text is one sentence with the cause."""


class HeadWatch:
    """Keeps a connection to the head's GCS, so that it notices at once when the GCS ends. The GCS (HTTP/2) also closes idle connections from time to time."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self._at, self._socket, self._error = (host.strip("[]"), int(port)), None, ""

    def reach(self, bell):
        """Connects for the first time. Returns True with a connection, and False if this node was asked to end meanwhile. Raises NotReached."""
        until = time.monotonic() + FIRST
        while not self.lives():
            if bell.signals:
                return False
            if time.monotonic() > until:
                own = address.route(self._at[0])
                raise NotReached("%s%s cannot connect to the head (%s, port %d): %s" % (address.node(), " (%s)" % own if own else "", *self._at, self._error))
            bell.wait(PAUSE)
        return True

    def fds(self):
        """The file descriptors to wait for."""
        return [] if self._socket is None else [self._socket.fileno()]

    def lives(self, ready=()):
        """Returns whether the head still exists. ready: the file descriptors from which bytes can be read."""
        if self._socket is not None:
            if self._socket.fileno() not in ready or self._read():
                return True
            self._socket.close()
            self._socket = None
        for attempt in range(LOST):
            if attempt:
                time.sleep(PAUSE)
            try:
                self._socket = socket.create_connection(self._at, timeout=5)
            except OSError as error:
                self._error = error.strerror or str(error)
                continue
            self._socket.setblocking(False)
            for option in SILENT:
                self._socket.setsockopt(*option)
            return True
        return False

    def _read(self):
        try:
            return self._socket.recv(65536) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False
