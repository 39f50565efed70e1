"""Proves that a connection to this host ends at a process of this user, before a secret is sent.

Any user of the host can listen on a port on which nobody listens yet. The kernel tells every user which user has the other end of a connection (sockets.py), but
only after the server has accepted the connection. Until then no process has that end, and a server that closes its listener has read nothing. Only Linux tells it; on
other systems this file proves nothing and allows every connection.
"""

import errno
import ipaddress
import os
import socket
import sys
import time

from rayctl_keeper.host import sockets

PAUSE, LONGEST_PAUSE = 0.001, 0.05  # the shortest and the longest pause in seconds between two queries: short, as a server may close a connection that sends nothing
PAUSE_PART = 16  # a pause is this part of the time that has passed
ROOT = 0  # root is accepted: it may read every secret of this user anyway
ESTABLISHED = 1  # the state of a TCP socket that neither end has closed


class Stranger(OSError):
    """Another user has the other end of a connection."""


class Closed(ConnectionResetError):
    """The server closed the connection before its user was known. Nothing was sent, so another try does no harm."""


def require(connection, timeout):
    """Returns when a process of this user, or of root, has accepted the connection; raises Stranger if another user has, Closed if the server has closed it,
    and socket.timeout if no process has accepted it in time. Connections to other hosts pass unchecked: this kernel does not know their processes."""
    proof = of(connection)
    begin = time.monotonic()
    while proof is not None and not proof.holds():
        passed = time.monotonic() - begin
        if passed > (timeout or 0):
            raise socket.timeout("the connection to port %d of this host was not accepted in time" % connection.getpeername()[1])
        time.sleep(min(max(passed / PAUSE_PART, PAUSE), LONGEST_PAUSE))


def of(connection):
    """The Proof of a connection that stays on this host; None if the connection goes to another host. Raises Closed if the server has reset it."""
    if not sys.platform.startswith("linux") or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        own, peer = connection.getsockname(), connection.getpeername()
    except OSError as error:
        raise Closed(error.errno, "the server reset the connection before anything was sent") from error
    return Proof(connection, own, peer) if of_this_host(own[0], peer[0]) else None


class Proof:
    """Who has the other end of a connection between two addresses of this host."""

    def __init__(self, connection, own, peer):
        self._connection, self._own, self._peer = connection, own, peer

    def holds(self):
        """Whether a process of this user, or of root, has accepted it; False if nobody has yet. Raises Stranger and Closed."""
        uid = sockets.owner(self._peer, self._own)
        if uid not in (None, os.geteuid(), ROOT):
            raise Stranger(errno.EACCES, "port %d of this host belongs to another user (uid %d)" % (self._peer[1], uid))
        if uid is None and self._connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != ESTABLISHED:
            raise Closed(errno.ECONNRESET, "the server at port %d of this host closed the connection before anything was sent" % self._peer[1])
        return uid is not None


def of_this_host(own, peer):
    """Whether a connection between these addresses stays on this host. For a connection to an address of this host, the kernel uses the same address at both ends;
    on loopback the two may differ."""
    return own == peer or ipaddress.ip_address(peer.partition("%")[0]).is_loopback
