"""Who has the other end of a connection. Run by `go test ./keeper` with every Python that the machine has."""

import os
import socket
import struct
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import proof, sockets
from rayctl_keeper.ray import dashboard

STRANGER = 12346


def server(address, family=socket.AF_INET, user=0):
    """Listens; a child process of another user accepts, if one is given. Returns the socket and the child's pid."""
    s = socket.socket(family)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind((address, 0))
    s.listen(8)
    pid = os.fork() if user else 0
    if user and pid == 0:
        os.setuid(user)
        held = s.accept()
        while held:
            time.sleep(1)
    return s, pid


def addresses():
    """Of a server and of those who connect to it."""
    yield socket.AF_INET, "127.0.0.1", "127.0.0.1"
    yield socket.AF_INET, "0.0.0.0", "127.0.0.2"
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError:
        return  # a host without IPv6
    yield socket.AF_INET6, "::", "127.0.0.1"
    yield socket.AF_INET6, "::", "::1"


@unittest.skipUnless(sys.platform.startswith("linux"), "only Linux shows who has a socket")
class Proof(unittest.TestCase):
    def test_own(self):
        for family, listens, connects in addresses():
            with self.subTest(listens=listens, connects=connects):
                s, _ = server(listens, family)
                with s, socket.create_connection((connects, s.getsockname()[1])) as c:
                    found = proof.of(c)
                    self.assertFalse(found.holds())  # not accepted
                    with self.assertRaises(socket.timeout):
                        proof.require(c, 0.05)
                    accepted, _ = s.accept()
                    with accepted:
                        self.assertTrue(found.holds())
                    with self.assertRaises(proof.Closed):
                        proof.require(c, 60)

    def test_dropped(self):
        for family, listens, connects in addresses():
            with self.subTest(listens=listens, connects=connects):
                s, _ = server(listens, family)
                with socket.create_connection((connects, s.getsockname()[1])) as c:
                    s.close()
                    with self.assertRaises(proof.Closed):
                        proof.require(c, 60)

    def test_reset(self):
        """Always the same exception: a mesh that refuses the keeper is known by it (run/gang/gathering.py), and of a reset connection the kernel tells no other end."""
        s, _ = server("127.0.0.1")
        with s, socket.create_connection(s.getsockname()) as c:
            accepted, _ = s.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()
            with self.assertRaises(ConnectionResetError):
                proof.of(c)

    def test_no_other_socket(self):
        """The kernel's answer about one socket and its tables of all of them say the same."""
        for family, listens, connects in addresses():
            s, _ = server(listens, family)
            with s, socket.create_connection((connects, s.getsockname()[1])) as c:
                near, far = c.getsockname()[:2], c.getpeername()[:2]
                nobody = (near[0], 1)
                for owner in sockets.owner, sockets.tabled:
                    with self.subTest(listens=listens, connects=connects, by=owner.__name__):
                        self.assertEqual(owner(near, far), os.getuid())
                        self.assertIsNone(owner(far, near))  # not accepted
                        self.assertIsNone(owner(far, nobody))  # the listener
                        self.assertIsNone(owner(nobody, near))
                accepted, _ = s.accept()
                with accepted:
                    self.assertEqual({sockets.owner(far, near), sockets.tabled(far, near), sockets.ask(far, near)}, {os.getuid()})

    def test_accepted_later(self):
        s, _ = server("127.0.0.1")
        with s, socket.create_connection(s.getsockname()) as c:
            kept = []
            thread = threading.Thread(target=lambda: kept.append(s.accept()[0]))
            thread.start()
            proof.require(c, 60)
            thread.join()
            kept[0].close()

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_a_stranger_gets_nothing(self):
        for family, listens, connects in addresses():
            with self.subTest(listens=listens, connects=connects):
                s, pid = server(listens, family, STRANGER)
                with s, socket.create_connection((connects, s.getsockname()[1])) as c:
                    with self.assertRaises(proof.Stranger):
                        proof.require(c, 60)
                os.kill(pid, 9)
                os.waitpid(pid, 0)

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_the_dashboard_of_a_stranger(self):
        s, pid = server("127.0.0.1", user=STRANGER)
        with s, self.assertRaises(dashboard.Unreachable) as refused:
            dashboard.Dashboard("http://127.0.0.1:%d" % s.getsockname()[1], "token").version(60)
        self.assertIn("another user (uid %d)" % STRANGER, str(refused.exception))
        os.kill(pid, 9)
        os.waitpid(pid, 0)


class Tables(unittest.TestCase):
    @unittest.skipUnless(sys.byteorder == "little", "the kernel's order")
    def test_words(self):
        self.assertEqual(sockets.row(("127.0.0.1", 8265), ("10.0.0.1", 1)), " 0100007F:2049 0100000A:0001 ")
        self.assertEqual(sockets.word(("::1", 80)), "00000000000000000000000001000000:0050")
        self.assertEqual(sockets.word(sockets.mapped(("127.0.0.1", 80))), "0000000000000000FFFF00000100007F:0050")

    def test_other_hosts(self):
        self.assertFalse(proof.of_this_host("10.0.0.1", "10.0.0.2"))
        self.assertTrue(proof.of_this_host("10.0.0.1", "10.0.0.1"))
        self.assertTrue(proof.of_this_host("::1", "::1"))


if __name__ == "__main__":
    unittest.main()
