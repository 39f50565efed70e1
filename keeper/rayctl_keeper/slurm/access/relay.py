"""Several TCP connections over one byte stream: the far end, `srun -u --overlap ... python3 keeper.pyz slurm-relay` on a cluster's node.

Standard input and output speak yamux (github.com/hashicorp/yamux, spec.md; the client's side is slurm/tunnels/mux.go): the client opens
a stream, sends "host:port\n", and has a connection to there. It ends with its standard input.
"""

import os
import select
import signal
import socket
import struct
import sys

from rayctl_keeper.host import proof

HEADER = struct.Struct(">BBHII")
DATA, WINDOW, PING, GOAWAY = KINDS = range(4)
SYN, ACK, FIN, RST = 1, 2, 4, 8
FIRST_WINDOW = 256 << 10  # of each stream in each direction, yamux's own
WINDOW_SIZE = 4 << 20  # of what we take: on a busy machine answers are late
PIPE = 64 << 10  # bytes that a pipe holds
CHUNK = PIPE - HEADER.size  # a frame is one write
LOOK = 20  # milliseconds between looks at who has accepted a connection
LONGEST_TARGET = 1024  # bytes of "host:port\n"
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)  # a connection that its far end has reset must not end all the others by SIGPIPE


class Garbage(Exception):
    """What came is no frame, or one that no client sends."""


class Stream:
    """One connection."""

    def __init__(self, number):
        self.number = number
        self.socket = None
        self.target = b""  # what was read of "host:port\n"
        self.credit = FIRST_WINDOW  # bytes that the client takes
        self.pending = bytearray()  # bytes for the socket
        self.passed_on = 0  # bytes that the socket took and that are not acknowledged to the client yet
        self.finished = False  # the client sends no more
        self.closed = False  # the socket sends no more
        self.watched = 0  # what of the socket is waited for
        self.proof = None  # that its other end is this user's; before that nothing is sent, for it may be a secret


class Relay:
    """All of them."""

    def __init__(self):
        self.streams = {}
        self.connected = {}  # those with a socket, by its number
        self.unproven = set()
        self.buffered = bytearray()
        self.poll = select.poll()

    def send(self, kind, flags, number, length, data=b""):
        """One frame to the client."""
        left = HEADER.pack(0, kind, flags, number, length) + data
        while left:
            left = left[os.write(1, left):]

    def run(self):
        """Until the client goes."""
        self.poll.register(0, select.POLLIN)
        while True:
            for number, events in self.poll.poll(LOOK if self.unproven else None):
                if number == 0:
                    data = os.read(0, PIPE)
                    if not data:
                        return
                    self.buffered += data
                    self.frames()
                elif number in self.connected:  # and not dropped by what came before it
                    self.serve(self.connected[number], events)
            for stream in list(self.unproven):
                self.flush(stream)
                self.watch(stream)

    def serve(self, stream, events):
        """Does what its socket is ready for."""
        if events & select.POLLOUT:
            self.flush(stream)
        if events & ~select.POLLOUT and stream.watched & select.POLLIN:  # what is left of a broken one is its error
            self.forward(stream)
        self.watch(stream)

    def watch(self, stream):
        """Waits for what the stream can do next."""
        if stream.number not in self.streams or stream.socket is None:
            return
        wanted = (select.POLLIN if stream.credit > 0 and not stream.closed else 0) | (select.POLLOUT if stream.pending and stream not in self.unproven else 0)
        if wanted == stream.watched:
            return
        if wanted:
            self.poll.register(stream.socket, wanted)
        else:
            self.poll.unregister(stream.socket)  # or poll would return its hang-up again and again
        stream.watched = wanted

    def frames(self):
        """Acts on what has arrived whole."""
        at = 0
        while len(self.buffered) - at >= HEADER.size:
            version, kind, flags, number, length = HEADER.unpack_from(self.buffered, at)
            if version != 0 or kind not in KINDS or kind == DATA and length > WINDOW_SIZE:
                raise Garbage("%r is no frame" % bytes(self.buffered[at:at + HEADER.size]))
            size = HEADER.size + (length if kind == DATA else 0)
            if len(self.buffered) - at < size:
                break
            self.frame(kind, flags, number, length, self.buffered[at + HEADER.size:at + size])
            at += size
        del self.buffered[:at]

    def frame(self, kind, flags, number, length, data):
        """One frame of the client."""
        if kind == PING:
            if flags & SYN:
                self.send(PING, ACK, 0, length)
            return
        if kind == GOAWAY:
            return
        if flags & SYN:
            if number in self.streams:
                self.drop(self.streams[number])
            self.streams[number] = Stream(number)
            self.send(WINDOW, ACK, number, WINDOW_SIZE - FIRST_WINDOW)
        stream = self.streams.get(number)
        if stream is None:
            return
        if flags & RST:
            self.drop(stream)
            return
        if kind == WINDOW:
            stream.credit += length
        elif data:
            self.take(stream, data)
        if flags & FIN and number in self.streams:
            stream.finished = True
            self.flush(stream)
        self.watch(stream)

    def take(self, stream, data):
        """Bytes for the connection; the first line is its target."""
        if stream.socket is None:
            stream.target += data
            line, newline, data = stream.target.partition(b"\n")
            if not newline and len(line) < LONGEST_TARGET:
                return
            stream.passed_on = len(line) + 1
            if not self.connect(stream, line.decode("utf-8", "replace")):
                return
        stream.pending += data
        if len(stream.pending) > WINDOW_SIZE:
            raise Garbage("more than the %d bytes that connection %d takes" % (WINDOW_SIZE, stream.number))
        self.flush(stream)

    def connect(self, stream, target):
        """Opens the connection; a stream whose target does not answer is reset."""
        host, _, port = target.rpartition(":")
        try:
            stream.socket = socket.create_connection((host.strip("[]"), int(port)), 5)
            stream.proof = proof.of(stream.socket)
            stream.socket.setblocking(False)
            stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connected[stream.socket.fileno()] = stream
            return True
        except (OSError, ValueError, OverflowError):
            stream.socket = None
            self.reset(stream)
            return False

    def flush(self, stream):
        """Writes what the connection takes."""
        if stream.socket is None:
            if stream.finished:
                self.reset(stream)
            return
        try:
            if not self.proven(stream):
                return
            if stream.pending:
                sent = stream.socket.send(stream.pending, NO_SIGNAL)
                del stream.pending[:sent]
                self.tell(stream, sent)
            if stream.finished and not stream.pending:
                stream.socket.shutdown(socket.SHUT_WR)
                if stream.closed:
                    self.drop(stream)
        except BlockingIOError:
            pass
        except OSError:
            self.reset(stream)

    def proven(self, stream):
        """Whether bytes may be sent. Raises OSError if they never may: another user has the other end, or nobody any more, and the client has all that came."""
        try:
            if stream.proof is not None and stream.proof.holds():
                stream.proof = None
        except proof.Closed:
            if stream.closed:
                raise
        (self.unproven.discard if stream.proof is None else self.unproven.add)(stream)
        return stream.proof is None

    def tell(self, stream, sent):
        """Lets the client send more, but not a frame for each byte; only what has left us counts, so that a slow receiver slows the client."""
        stream.passed_on += sent
        if stream.passed_on >= WINDOW_SIZE // 4:
            self.send(WINDOW, 0, stream.number, stream.passed_on)
            stream.passed_on = 0

    def forward(self, stream):
        """Bytes from the connection to the client."""
        try:
            data = stream.socket.recv(min(CHUNK, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self.reset(stream)
            return
        if data:
            stream.credit -= len(data)
            self.send(DATA, 0, stream.number, len(data), data)
            return
        stream.closed = True
        self.send(WINDOW, FIN, stream.number, 0)
        if stream.finished and not stream.pending:
            self.drop(stream)

    def reset(self, stream):
        """Sends the client a reset: the connection is broken."""
        self.send(WINDOW, RST, stream.number, 0)
        self.drop(stream)

    def drop(self, stream):
        """Forgets it."""
        self.streams.pop(stream.number, None)
        self.unproven.discard(stream)
        if stream.socket is None:
            return
        self.connected.pop(stream.socket.fileno(), None)
        if stream.watched:
            self.poll.unregister(stream.socket)
            stream.watched = 0
        stream.socket.close()


def main(_arguments):
    """Entry point."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(ending, lambda *_: os._exit(0))
    try:
        Relay().run()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
    except Garbage as error:
        sys.exit("the client's end of the tunnel: %s" % error)
