"""Free ports on this host."""

import random
import socket

PORTS = range(20000, 32000)  # between Ray's own worker ports and those that kernels give to connections


def free_ports(host, count):
    """Ports that nobody listens on at the moment, chosen at random so that two keepers hardly choose the same."""
    found = []
    for port in random.SystemRandom().sample(PORTS, 400):
        try:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
                s.bind((host, port))
            with socket.socket() as s:
                s.bind(("", port))  # the GCS and the client server listen on all addresses
            found.append(port)
        except OSError:
            continue
        if len(found) == count:
            return found
    raise OSError("no free ports between %d and %d on %s" % (PORTS.start, PORTS.stop, host))
