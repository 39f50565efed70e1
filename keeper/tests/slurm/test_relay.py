"""The far end of a tunnel, among frames that no client of ours sends (slurm/tunnels has the other tests). Run by `go test ./keeper`."""

import os
import random
import socket
import struct
import subprocess
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.slurm.access import relay

ECHO = 1  # the number of the connection that must not notice


class Echo:
    """A server that sends everything back, but resets what begins with R, and closes its end of what begins with C."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    @staticmethod
    def serve(connection):
        with connection:
            try:
                data = connection.recv(1)
                if data == b"R":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                if data == b"C":
                    connection.shutdown(socket.SHUT_WR)
                while data:
                    connection.sendall(data) if data != b"C" else None
                    data = connection.recv(1 << 16)
            except OSError:
                pass


class Client:
    """The other side of a relay: sends whatever it is told to, and takes what comes for ECHO."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-E", "-s", "-u", "-B", os.path.dirname(HERE), "slurm-relay"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.got, self.came = bytearray(), threading.Condition()
        self.over = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            head = self.exactly(relay.HEADER.size)
            if len(head) < relay.HEADER.size:
                break
            _, kind, _, number, length = relay.HEADER.unpack(head)
            data = self.exactly(length) if kind == relay.DATA else b""
            if number == ECHO:
                with self.came:
                    self.got += data
                    self.came.notify_all()
        with self.came:
            self.over = True
            self.came.notify_all()

    def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.process.stdout.read(size - len(data))
            if not piece:
                break
            data += piece
        return data

    def send(self, kind, flags, number, length, data=b"", version=0):
        self.raw(relay.HEADER.pack(version, kind, flags, number, length) + data)

    def raw(self, data):
        while data:
            data = data[self.process.stdin.write(data):]

    def open(self, number, target):
        self.send(relay.WINDOW, relay.SYN, number, relay.WINDOW_SIZE)
        self.send(relay.DATA, 0, number, len(target), target)

    def echoes(self, text):
        """Whether ECHO still answers."""
        self.send(relay.DATA, 0, ECHO, len(text), text)
        with self.came:
            self.came.wait_for(lambda: self.got.endswith(text) or self.over, 60)
            return self.got.endswith(text)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        said = self.process.stderr.read()
        self.process.stderr.close()
        return said.decode()


class Frames(unittest.TestCase):
    def setUp(self):
        self.echo = Echo()
        self.addCleanup(self.echo.socket.close)
        self.client = Client()
        self.addCleanup(self.client.process.__exit__, None, None, None)
        self.addCleanup(self.client.process.kill)
        self.target = b"127.0.0.1:%d\n" % self.echo.port
        self.client.open(ECHO, self.target)
        self.assertTrue(self.client.echoes(b"begin"))

    def lives(self):
        self.assertTrue(self.client.echoes(b"end"))
        self.assertEqual((self.client.close(), self.client.process.returncode), ("", 0))

    def test_targets(self):
        """The relay refuses each of these targets, and the other connections go on."""
        for number, target in enumerate((b"\n", b"\xff\xfe:1\n", b"127.0.0.1:99999\n", b"127.0.0.1:-1\n", b"127.0.0.1:" + b"9" * 500 + b"\n", b"a\0b:1\n", b"x" * 300 + b":1\n", b"x" * 5000)):
            self.client.open(3 + 2 * number, target)
        self.lives()

    def test_a_server_that_leaves(self):
        """What is sent to a connection that has ended ends no other one, not by SIGPIPE either."""
        for number, kind in ((3, b"R"), (5, b"C")):
            self.client.open(number, self.target + kind)
            for i in range(200):
                self.client.send(relay.DATA, 0, number, 1000, b"x" * 1000)
                self.assertTrue(self.client.echoes(b"%d" % i))
            self.client.send(relay.WINDOW, relay.FIN, number, 0)
            self.client.send(relay.DATA, 0, number, 4, b"more")
        self.lives()

    def test_data_after_the_end(self):
        for number in range(3, 43, 2):
            self.client.open(number, self.target)
            self.client.send(relay.WINDOW, relay.FIN, number, 0)
            self.client.send(relay.DATA, 0, number, 4, b"more")
            self.client.send(relay.DATA, relay.FIN, number, 4, b"more")
        self.lives()

    def test_random(self):
        """Frames of all kinds, on connections that are open, closed, opened twice, and unknown."""
        random_ = random.Random(32)
        for _ in range(3000):
            number, kind = random_.choice((0, 3, 4, 5, 7, 9, 2 ** 32 - 1)), random_.choice(relay.KINDS)
            flags = random_.choice((0, 0, 0, 1, 2, 4, 8, 1 | 4, 1 | 8, random_.randrange(1 << 16)))
            data = random_.choice((b"", self.target, self.target + b"R", self.target + b"C", b"127.0.0.1", b"1\n", b"x" * random_.randrange(3000)))
            self.client.send(kind, flags, number, len(data) if kind == relay.DATA else random_.choice((0, 1, 1 << 20, 2 ** 32 - 1)), data if kind == relay.DATA else b"")
        self.lives()

    def test_no_frames(self):
        """The relay writes the reason, and ends."""
        for raw in (b"a line of another program\n", relay.HEADER.pack(1, 0, 0, 3, 0), relay.HEADER.pack(0, 4, 0, 3, 0), relay.HEADER.pack(0, 0, 0, 3, relay.WINDOW_SIZE + 1)):
            client = Client()
            client.raw(raw)
            with client.came:
                client.came.wait_for(lambda: client.over, 60)
            said = client.close()
            self.assertIn("is no frame\n", said)
            self.assertEqual((client.process.returncode, said.count("\n")), (1, 1))


if __name__ == "__main__":
    unittest.main()
