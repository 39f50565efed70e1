"""This node's address, by which the other nodes of its cluster reach it."""

import array
import fcntl
import ipaddress
import os
import socket
import struct

SIOCGIFCONF, SIOCGIFFLAGS = 0x8912, 0x8913  # netdevice(7)
IFREQ = 40  # bytes of a struct ifreq on 64-bit Linux
RUNNING = 0x40  # IFF_RUNNING: a bridge that nothing is connected to, such as docker0, is not
BUFFER = 1 << 16
ANYWHERE = "192.0.2.1"  # for documentation: nobody has it, so that the default route leads there
IPV6_SCOPES = ("00", "10")  # global, host; the address of a link means nothing elsewhere


class NoAddress(OSError):
    """Why there is none: one sentence with the next step."""


def own(network="", several=True, head=""):
    """The address. network: names of interfaces and CIDRs, separated by commas, of which the first that this node has counts. Without it: for a worker the one
    from which it reaches the head's address; else what the host's name stands for, where the default route begins, or the only one that there is. Loopback is
    only for a cluster whose other nodes, if there are any, are here, too (several is False). Raises NoAddress."""
    found = addresses()
    usable = [(name, address) for name, address in found if not (several and address.is_loopback)]
    if network:
        for part in network.split(","):
            for name, address in usable:
                if matches(part.strip(), name, address):
                    return str(address)
        raise NoAddress("%s has no address in slurm.network %s; it has %s" % (node(), network, listed(found)))
    if head:
        source = route(head)
        if not source:
            raise NoAddress("%s has no route to the head's address %s, it has %s: set slurm.network to a network of all nodes" % (node(), head, listed(found)))
        return source
    known = [str(address) for _, address in usable if not address.is_loopback]
    for candidate in by_name() + [route(ANYWHERE)]:
        if candidate in known:
            return candidate
    distinct = [a for _, a in usable if not a.is_loopback and not a.is_link_local]
    distinct = [a for a in distinct if a.version == 4] or distinct
    if len(distinct) == 1:
        return str(distinct[0])
    if not several:
        return "127.0.0.1"
    if distinct:
        raise NoAddress("%s has %s, and neither its name nor a default route shows which of them other nodes reach: set slurm.network" % (node(), listed(found)))
    raise NoAddress("%s has no address that other nodes reach, its name stands for %s: set slurm.network" % (node(), " and ".join(by_name()) or "none"))


def interface(address):
    """The name of the interface with this address of the node, without the label of a further address (eth0:1); "" if there is none."""
    return next((name.partition(":")[0] for name, own_address in addresses() if str(own_address) == address), "")


def node():
    """What Slurm calls this node."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def listed(found):
    """For a sentence; loopback is of no interest."""
    return ", ".join("%s on %s" % (address, name) for name, address in found if not address.is_loopback) or "none but loopback"


def matches(part, name, address):
    """Whether this is an address of that interface or CIDR. An interface may have further addresses under labels such as eth0:1."""
    try:
        return address in ipaddress.ip_network(part, strict=False)
    except ValueError:
        return part in (name, name.partition(":")[0])


def by_name():
    """IPv4 addresses that the host's name stands for; on Debian often 127.0.1.1. Linux has names of 64 characters, which no name service has (UnicodeError)."""
    try:
        return [a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


def route(to):
    """The address from which packets to another one leave; "" without a route."""
    with socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect((to, 9))  # sends nothing
            return s.getsockname()[0]
        except OSError:
            return ""


def addresses():
    """(interface, address) of all interfaces that are up, IPv4 first."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return ipv4(s) + [(name, address) for name, address in ipv6() if running(s, name)]


def ipv4(s):
    """All IPv4 addresses, by the kernel's list of them."""
    data = array.array("B", bytes(BUFFER))
    size, _ = struct.unpack("iL", fcntl.ioctl(s.fileno(), SIOCGIFCONF, struct.pack("iL", BUFFER, data.buffer_info()[0])))
    data, found = data.tobytes()[:size], []
    for at in range(0, size, IFREQ):
        name = os.fsdecode(data[at:at + 16].split(b"\0")[0])
        if running(s, name):
            found.append((name, ipaddress.ip_address(data[at + 20:at + 24])))
    return found


def running(s, name):
    """Whether an interface is up and connected."""
    try:
        answer = fcntl.ioctl(s.fileno(), SIOCGIFFLAGS, struct.pack("%ds" % IFREQ, os.fsencode(name)))
    except OSError:
        return False
    return bool(struct.unpack_from("H", answer, 16)[0] & RUNNING)


def ipv6():
    """All IPv6 addresses but those of links: address, index, prefix, scope, flags, name (proc(5))."""
    try:
        with open("/proc/net/if_inet6") as f:
            lines = [line.split() for line in f]
    except OSError:
        return []
    return [(fields[5], ipaddress.ip_address(bytes.fromhex(fields[0]))) for fields in lines if fields[3] in IPV6_SCOPES]
