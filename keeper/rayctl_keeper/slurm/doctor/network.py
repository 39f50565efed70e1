"""What doctor asks a node about its network: `keeper.pyz slurm-network NETWORK PORTS NODES NEEDED`. It prints two lines, one about the node's address in a
cluster of so many nodes and one about free ports, each "ok" or "no" and a sentence; the second is empty if PORTS is."""

from rayctl_keeper.host import address, ports

CONNECTIONS = "/proc/sys/net/ipv4/ip_local_port_range"  # ip(7)


def main(arguments):
    """Entry point."""
    network, wanted, nodes, needed = arguments
    try:
        print("ok " + address.own(network, int(nodes) > 1))
    except OSError as error:
        print("no %s" % error)
    print(free(wanted, int(needed)) if wanted else "")
    return 0


def free(wanted, needed):
    """How many ports of the range nobody listens on, and whether that is enough."""
    first, last = (int(number) for number in wanted.split("-"))
    count = sum(ports.is_free("", port, again=True) for port in range(first, last + 1))
    few = "" if count >= needed else ", and a node with the keeper beside it needs %d" % needed
    return "%s %d of %d ports are free%s%s" % ("no" if few else "ok", count, last - first + 1, few, overlap(first, last))


def overlap(first, last):
    """A port of the range may be taken by a connection in the moment between its choice and a server's start."""
    try:
        with open(CONNECTIONS) as f:
            low, high = (int(number) for number in f.read().split())
    except (OSError, ValueError):
        return ""
    return "" if last < low or first > high else "; some are among those that the node gives to outgoing connections (%d-%d), and may be taken by one" % (low, high)
