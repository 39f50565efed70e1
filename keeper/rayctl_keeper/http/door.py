"""Who may come in. Anybody who reaches the keeper's port may open connections, keep them open, and send what he likes, as slowly as he likes.

A connection is a stranger's until the headers of its first request have come with the cluster's token. Strangers share one thread and few descriptors: when a
new one comes, and there are too many, the oldest has to go. So a flood of them costs a friend nothing but another try, and the keeper nothing at all."""

import errno
import hmac
import json
import re
import select
import socket
import threading
import time

from rayctl_keeper.host import descriptors

STRANGERS = 4096  # at once, and at most an eighth of the descriptors: a friend is one until it has proven whose port this is, which takes long in a flood
PATIENCE = 10.0  # seconds for the headers of the first request
LONGEST_HEAD = 16 << 10  # bytes of them
BACKLOG = 1024  # connections that the kernel keeps while we do something else
AT_ONCE = 64  # that are accepted before the others are looked at again
PAUSE = 0.2  # seconds without accepting, when the system has no descriptors left
NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
ENDS = 4  # bytes of that


class Stranger:
    """A connection without a token, so far."""

    def __init__(self, connection, address):
        self.connection, self.address = connection, address
        self.head = bytearray()
        self.until = time.monotonic() + PATIENCE


class Door:
    """Accepts connections in one thread. admit(connection, address, head) is called for those whose first request has the token, with what was read of it."""

    def __init__(self, listener, token, admit):
        self._listener, self._token, self._admit = listener, token, admit
        self._strangers = {}  # by descriptor, the oldest first
        self._closes, self._bell = socket.socketpair()
        self._pause_until = None
        self._most = most()
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._poll.register(self._closes, select.POLLIN)
        self._thread = threading.Thread(target=self._watch, daemon=True, name="door")

    def open(self):
        """Begins."""
        self._thread.start()

    def close(self):
        """Nobody comes in any more, and strangers go."""
        self._bell.close()
        self._thread.join()
        for stranger in list(self._strangers.values()):
            self._drop(stranger)
        self._closes.close()
        self._listener.close()

    def _watch(self):
        while True:
            ready = {number for number, _ in self._poll.poll(self._rest())}
            if self._closes.fileno() in ready:
                return
            for number in [n for n in self._strangers if n in ready]:
                self._hear(self._strangers[number])
            now = time.monotonic()
            for stranger in [s for s in self._strangers.values() if s.until <= now]:
                self._drop(stranger)
            if self._pause_until is not None and self._pause_until <= now:
                self._pause_until = None
                self._poll.register(self._listener, select.POLLIN)
            if self._listener.fileno() in ready:
                self._accept()

    def _rest(self):
        """Milliseconds until there is something to do anyway, None: never."""
        moments = [s.until for s in list(self._strangers.values())[:1]] + ([] if self._pause_until is None else [self._pause_until])
        return None if not moments else max(0.0, min(moments) - time.monotonic()) * 1000

    def _accept(self):
        for _ in range(AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in NONE_LEFT and not self._drop_oldest():
                    self._poll.unregister(self._listener)  # or poll would return at once, again and again
                    self._pause_until = time.monotonic() + PAUSE
                return  # or it was closed before it was accepted
            if not self._makes_room(connection.fileno()):
                connection.close()  # there are as many friends as there can be
                continue
            connection.setblocking(False)
            stranger = self._strangers[connection.fileno()] = Stranger(connection, address)
            self._poll.register(connection, select.POLLIN)
            self._hear(stranger)  # most friends have sent their request by now

    def _makes_room(self, number):
        """For a connection that has got the descriptor of this number: returns whether it may stay."""
        if descriptors.reserved(number) or len(self._strangers) >= self._most:
            descriptors.raise_limit()
            self._most = most()
        if descriptors.reserved(number) or len(self._strangers) >= self._most:
            return self._drop_oldest()
        return True

    def _hear(self, stranger):
        """Takes what has come, and decides if that is enough."""
        known = len(stranger.head)
        try:
            piece = stranger.connection.recv(LONGEST_HEAD - known)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        stranger.head += piece
        end = END_OF_HEAD.search(stranger.head, max(0, known - ENDS))
        if end and self._is_friend(bytes(stranger.head[:end.start()])):
            self._forget(stranger)
            self._admit(stranger.connection, stranger.address, bytes(stranger.head))
        elif end:
            self._refuse(stranger, "401 Unauthorized", "the keeper's token is missing or wrong")
        elif len(stranger.head) >= LONGEST_HEAD:
            self._refuse(stranger, "431 Request Header Fields Too Large", "the headers are longer than %d KiB" % (LONGEST_HEAD >> 10))
        elif not piece:
            self._drop(stranger)

    def _is_friend(self, head):
        for line in head.split(b"\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() in (b"authorization", b"x-ray-authorization") and has_token(value, self._token):
                return True
        return False

    def _refuse(self, stranger, status, why):
        body = json.dumps({"error": why}).encode()
        text = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body))
        try:
            stranger.connection.send(text.encode() + body)  # a new connection has room for it
            stranger.connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self._drop(stranger)

    def _drop_oldest(self):
        """Returns whether there was one."""
        for stranger in self._strangers.values():
            self._drop(stranger)
            return True
        return False

    def _drop(self, stranger):
        self._forget(stranger)
        stranger.connection.close()

    def _forget(self, stranger):
        del self._strangers[stranger.connection.fileno()]
        self._poll.unregister(stranger.connection)


def most():
    """How many strangers there may be with the descriptors that there are."""
    return next(n for n in (STRANGERS, 2048, 1024, 512, 256, 128, 64, 32, 16, 8) if n == 8 or not descriptors.reserved(8 * n))


def has_token(value, token):
    """Whether the value of a header, in bytes, is the bearer of the token."""
    scheme, _, given = value.strip().partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)
