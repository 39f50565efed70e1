"""Who has a TCP socket of this host: the kernel tells everybody (Linux).

It is asked for one socket (sock_diag(7)), which it finds without a search through all of them. A kernel without that, such as gVisor's, shows them all in /proc/net/tcp
(proc(5)); with ten thousand sockets that takes a thousand times as long."""

import errno
import ipaddress
import socket
import struct
import sys

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY, the kind of a question and of its answer
ERROR, REQUEST = 2, 1  # NLMSG_ERROR, NLM_F_REQUEST
HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, kind, flags, sequence, port
QUESTION = struct.Struct("=4BI")  # the beginning of inet_diag_req_v2: family, protocol, extensions, nothing, states
ID = struct.Struct("!HH16s16s")  # the beginning of inet_diag_sockid: both ports and both addresses, the socket's own first
ANY = bytes(4) + b"\xff" * 8  # its end: any network interface, no cookie
NUMBER = struct.Struct("=i")
ANSWER = struct.Struct("=4B48s5I")  # inet_diag_msg: family, state, timer, retransmits, id, expires, queues, uid, inode

_answers = False  # this kernel has told of a socket; one without the module tcp_diag answers to each question that there is no such socket


def owner(local, remote):
    """The user whose process has the socket with these addresses, its own first; None if there is no such socket, or if no process has it: none has accepted it yet, or
    its program has closed it."""
    global _answers
    if ipaddress.ip_address(local[0].partition("%")[0]).is_link_local:  # such a socket has a network interface, too
        return tabled(local, remote)
    try:
        found = ask(local, remote)
    except OSError as error:
        return None if error.errno == errno.ENOENT and _answers else tabled(local, remote)
    _answers = True
    return found


def ask(local, remote):
    """Asks the kernel for one socket. Any user may, for sockets of any user. Raises OSError: ENOENT if there is no such socket."""
    body = QUESTION.pack(family(local), socket.IPPROTO_TCP, 0, 0, 0xffffffff) + identity(local, remote) + ANY
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as s:
        s.sendto(HEADER.pack(HEADER.size + len(body), BY_FAMILY, REQUEST, 0, 0) + body, (0, 0))
        text, sender = s.recvfrom(4096, socket.MSG_DONTWAIT)  # the kernel has answered before sendto returned
    kind = HEADER.unpack_from(text)[1]
    if kind == ERROR:
        raise OSError(-NUMBER.unpack_from(text, HEADER.size)[0], "the kernel tells of no socket")
    if kind != BY_FAMILY or sender[0] != 0:
        raise OSError(errno.EPROTO, "this is not the kernel's answer")
    _, _, _, _, found, _, _, _, uid, inode = ANSWER.unpack_from(text, HEADER.size)
    # Where there is no such socket, the kernel tells of the one that listens there. Before accept(2) the inode is 0.
    same = found[:ID.size] in (identity(local, remote), identity(mapped(local), mapped(remote)))
    return uid if same and inode else None


def identity(local, remote):
    """A socket for the kernel."""
    return ID.pack(local[1], remote[1], packed(local), packed(remote))


def packed(address):
    """Its bytes."""
    return socket.inet_pton(family(address), address[0].partition("%")[0])


def family(address):
    """Its family of protocols."""
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def tabled(local, remote):
    """The same as owner, for kernels that do not answer questions about one socket. Each call reads all sockets of the host."""
    for table in TABLES:
        try:
            with open(table) as f:
                text = f.read()
        except OSError:  # a kernel without IPv6
            continue
        for wanted in (row(local, remote), row(mapped(local), mapped(remote))):
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
    text = packed(address)
    words = [int.from_bytes(text[i:i + 4], sys.byteorder) for i in range(0, len(text), 4)]
    return "".join("%08X" % w for w in words) + ":%04X" % address[1]


def mapped(address):
    """The same as a server that listens for both protocols has it."""
    return address if ":" in address[0] else ("::ffff:" + address[0], address[1])
