"""Proves that a connection to this host ends at a process of this user, before a secret is sent.

Any user of the host can listen on a port on which nobody listens yet. The kernel tells everybody who has the other end of a connection (proc(5),
/proc/net/tcp), but only when the server has accepted it: before that nobody does, and whoever closes the listener then never had the bytes. Only
Linux has this table; elsewhere nothing is proven.
"""

import errno
import ipaddress
import os
import socket
import sys
import time

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
PAUSE, LONGEST_PAUSE = 0.001, 0.05  # seconds between two looks, doubled each time
ROOT = 0  # may read every secret of this user anyway


class Stranger(OSError):
    """Another user has the other end of a connection."""


def require(connection, timeout):
    """Returns when a process of this user, or of root, has accepted the connection; raises Stranger if another user has,
    and socket.timeout if nobody has in time. Connections to other hosts are not looked at: their processes cannot be seen from here."""
    proof = of(connection)
    until, pause = time.monotonic() + (timeout or 0), PAUSE
    while proof is not None and not proof.holds():
        if time.monotonic() > until:
            raise socket.timeout("the connection to port %d of this host was not accepted in time" % connection.getpeername()[1])
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def of(connection):
    """The Proof of a connection to this host, None of another one."""
    if not sys.platform.startswith("linux") or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    own, peer = connection.getsockname(), connection.getpeername()
    return Proof(own, peer) if of_this_host(own[0], peer[0]) else None


class Proof:
    """Who has the other end of a connection between two addresses of this host."""

    def __init__(self, own, peer):
        self._port, self._rows = peer[1], [row(peer, own), row(mapped(peer), mapped(own))]

    def holds(self):
        """Whether a process of this user, or of root, has accepted it; False if nobody has yet. Raises Stranger."""
        uid = owner(self._rows)
        if uid not in (None, os.geteuid(), ROOT):
            raise Stranger(errno.EACCES, "port %d of this host belongs to another user (uid %d)" % (self._port, uid))
        return uid is not None


def of_this_host(own, peer):
    """Whether a connection between these addresses stays on this host: the kernel takes the address of the other end for our own, except on loopback."""
    return own == peer or ipaddress.ip_address(peer.partition("%")[0]).is_loopback


def owner(rows):
    """The user of the socket in the first of these rows that is in the kernel's tables, None if there is none or no process has it."""
    for table in TABLES:
        try:
            with open(table) as f:
                text = f.read()
        except OSError:  # a kernel without IPv6
            continue
        for wanted in rows:
            at = text.find(wanted)
            if at < 0:
                continue
            # state, queues, timer, retransmits, uid, timeout, inode: before accept(2) uid and inode are 0
            fields = text[at + len(wanted):].split(None, 7)
            if len(fields) > 6 and fields[6] != "0":
                return int(fields[4])
    return None


def row(local, remote):
    """How a row of the tables begins, after its number, for a socket with these addresses."""
    return " %s %s " % (word(local), word(remote))


def word(address):
    """An address as the tables have it: words of the machine's byte order, in hexadecimal digits."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    packed = socket.inet_pton(family, address[0].partition("%")[0])
    words = [int.from_bytes(packed[i:i + 4], sys.byteorder) for i in range(0, len(packed), 4)]
    return "".join("%08X" % w for w in words) + ":%04X" % address[1]


def mapped(address):
    """The same as a server that listens for both protocols has it."""
    return address if ":" in address[0] else ("::ffff:" + address[0], address[1])
