"""Free ports on this host."""

import random
import socket
import sys

PORTS = range(20000, 32000)  # between Ray's own worker ports and those that kernels give to connections

_held = []  # sockets that reserve the chosen ports until this process ends


def free_ports(host, count):
    """Ports that nobody listens on at the moment and that no other keeper or supervisor of this host has chosen."""
    found = []
    for port in random.SystemRandom().sample(PORTS, 400):
        try:
            if is_free(host, port):
                claim("-%d" % port)
                found.append(port)
        except OSError:
            continue
        if len(found) == count:
            return found
    raise OSError("no free ports between %d and %d on %s" % (PORTS.start, PORTS.stop, host))


def is_free(host, port, again=False):
    """Whether nobody listens on a port. again: one that connections of an earlier server still have is free, as it is for the servers that Ray starts."""
    for address in (host, ""):  # the GCS and the client server listen on all addresses
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
            if again:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((address, port))
            except OSError:
                return False
    return True


def choose(host, wanted):
    """The port for a server that another program starts here: wanted, or a free one if that is 0. Raises OSError if wanted is taken. Some servers (Ray
    Serve's) would share a port with one that listens already (SO_REUSEPORT), and each gets a part of the requests: that option is not set here."""
    if not wanted:
        return free_ports(host, 1)[0]
    family, kind, protocol, _, address = socket.getaddrinfo(host, wanted, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as s:
        s.bind(address)
        s.listen()
    return wanted


def claim(name):
    """Takes a port or a group of ports for this process until it ends; raises OSError if another one has it. Seconds pass until Ray listens on
    a port, and in that time the head's ports, those of its agents and those of other nodes of this host must not be the
    same. The claim is an abstract socket: there is one for each network namespace, as of the port itself, it is seen by all
    users, and the kernel removes it with us."""
    if not sys.platform.startswith("linux"):
        return
    s = socket.socket(socket.AF_UNIX)
    try:
        s.bind("\0rayctl-port" + name)
    except OSError:
        s.close()
        raise
    _held.append(s)
