"""What doctor asks a node about its network: `keeper.pyz slurm-network NETWORK PORTS NODES`. It prints two lines, one about the node's address in a cluster of
so many nodes and one about free ports, each "ok" or "no" and a sentence; the second is empty if PORTS is."""

from rayctl_keeper.host import address, ports

CONNECTIONS = "/proc/sys/net/ipv4/ip_local_port_range"  # ip(7)


def main(arguments):
    """Entry point."""
    network, wanted, nodes = arguments
    try:
        print("ok " + address.own(network, int(nodes) > 1))
    except OSError as error:
        print("no %s" % error)
    print(free(wanted) if wanted else "")
    return 0


def free(wanted):
    """How many ports of the range nobody listens on."""
    first, last = (int(number) for number in wanted.split("-"))
    count = sum(ports.is_free("", port, again=True) for port in range(first, last + 1))
    return "%s %d of %d ports are free%s" % ("ok" if count else "no", count, last - first + 1, overlap(first, last))


def overlap(first, last):
    """A port of the range may be taken by a connection in the moment between its choice and a server's start."""
    try:
        with open(CONNECTIONS) as f:
            low, high = (int(number) for number in f.read().split())
    except (OSError, ValueError):
        return ""
    return "" if last < low or first > high else "; some are among those that the node gives to outgoing connections (%d-%d), and may be taken by one" % (low, high)
