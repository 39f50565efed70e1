"""A server of JSON over HTTP that answers only those who have the cluster's token."""

import io
import json
import math
import os
import re
import select
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler

from rayctl_keeper.host import descriptors
from rayctl_keeper.http.door import Door, has_token

MAX_DOCUMENT = 4 << 20  # of a request's JSON
DEPTH = 100  # of its objects and lists within one another
PIECE = 1 << 20  # bytes of a request's body that are read at once
AT_ONCE = 64 << 10  # bytes of a file that are read and then sent; of more the kernel sends the file itself, so that many clients take no memory here


class Rejected(Exception):
    """An answer other than 200."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def finite(text):
    """A number of JSON. NaN and Infinity are none, though Python reads and writes them: no other reader takes a state document with one."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def moderate(text):
    """An integer that a float holds: what is longer is an OverflowError somewhere else."""
    if len(text) > 18:
        raise ValueError(text)
    return int(text)


def shallow(body):
    """Refuses a body that is nested so deeply that a later reader or writer of it could fail."""
    level = [body]
    for _ in range(DEPTH):
        level = [inner for value in level if isinstance(value, (dict, list)) for inner in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return
    raise Rejected(400, "the request has more than %d objects or lists within one another" % DEPTH)


def serve(handler, host, port, token, **attributes):
    """Starts a server in a daemon thread, whose handlers have these attributes."""
    return Server(type("BoundHandler", (handler,), dict(attributes, token=token)), host, port, token)


class Server:
    """A thread for each connection whose first request has the token; what is without is left at the door."""

    def __init__(self, handler, host, port, token):
        self._handler = handler
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            self.server_address = listener.getsockname()
            self._door = Door(listener, token, self._admit)
        except OSError:
            listener.close()
            raise
        self._door.open()

    def close(self):
        """Nobody comes in any more; who is in gets the answer."""
        self._door.close()

    def _admit(self, connection, address, head):
        try:
            threading.Thread(target=self._serve, args=(connection, address, head), daemon=True, name="api").start()
        except RuntimeError:  # the system has no more threads
            connection.close()

    def _serve(self, connection, address, head):
        try:
            self._handler(connection, address, self, head)
        except OSError:
            pass  # the client left
        finally:
            try:
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            connection.close()


class Begun(io.RawIOBase):
    """What was read of a connection at the door, and then the rest of it."""

    def __init__(self, head, rest):
        super().__init__()
        self._head, self._rest = memoryview(head), rest

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self._head:
            return self._rest.readinto(buffer)
        count = min(len(buffer), len(self._head))
        buffer[:count], self._head = self._head[:count], self._head[count:]
        return count

    def close(self):
        self._rest.close()
        super().close()


class Handler(BaseHTTPRequestHandler):
    """One connection of somebody who has the token. Below it get, put and post take a path and its query, and return the JSON to answer with, or None when they
    have answered themselves. They are called for requests with the token; of others nothing is read but the headers."""

    protocol_version = "HTTP/1.1"
    timeout = 120  # of a silent connection
    disable_nagle_algorithm = True
    rbufsize = 0  # see setup
    token = None  # bytes

    def __init__(self, connection, address, server, head):
        self._head = head
        super().__init__(connection, address, server)

    def setup(self):
        super().setup()
        self.rfile = io.BufferedReader(Begun(self._head, self.rfile))

    def do_GET(self):
        self.respond(self.get)

    def do_PUT(self):
        self.respond(self.put)

    def do_POST(self):
        self.respond(self.post)

    def get(self, path, _query):
        raise Rejected(404, "no such call: GET %s" % path)

    def put(self, path, _query):
        raise Rejected(404, "no such call: PUT %s" % path)

    def post(self, path, _query):
        raise Rejected(404, "no such call: POST %s" % path)

    def log_message(self, format, *args):
        pass  # keeper.log has decisions, not requests

    def respond(self, call):
        """Calls, and answers."""
        try:
            if not self.authorized():
                raise Rejected(401, "the keeper's token is missing or wrong")
            url = urllib.parse.urlsplit(self.path)
            answer = call(url.path, dict(urllib.parse.parse_qsl(url.query)))
            if answer is not None:
                self.send(200, answer)
        except Rejected as rejected:
            # The body may be unread: the connection is of no further use.
            self.close_connection = True
            self.send(rejected.status, json.dumps({"error": str(rejected)}).encode())
        except Exception as error:  # a bug, or a disk that fails: whoever asked is told, and nobody else notices
            self.close_connection = True
            self.send(500, json.dumps({"error": "%s: %s" % (type(error).__name__, error)}).encode())

    def authorized(self):
        """Whether the request has the token."""
        return any(has_token(self.headers.get(name, "").encode("utf-8", "replace"), self.token) for name in ("Authorization", "X-Ray-Authorization"))

    def length(self):
        """The length of the request's body, None where it does not say it."""
        text = self.headers.get("Content-Length")
        if text is not None and not re.fullmatch("[0-9]{1,18}", text.strip()):
            raise Rejected(400, "Content-Length is not a number")
        return None if text is None else int(text)

    def body(self):
        """The request's JSON, of limited length."""
        size = self.length() or 0
        if size > MAX_DOCUMENT:
            raise Rejected(413, "the request is longer than 4 MiB")
        try:
            body = json.loads(self.rfile.read(size).decode() or "{}", parse_constant=finite, parse_float=finite, parse_int=moderate)
        except (ValueError, RecursionError):
            raise Rejected(400, "the request is not JSON")
        if not isinstance(body, dict):
            raise Rejected(400, "the request is not a JSON object")
        shallow(body)
        return body

    def send(self, status, body):
        """A whole answer."""
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client left

    def send_attempt(self, path, offset, attempt, last):
        """The log of an attempt, 0: the last one, which may not have been begun."""
        try:
            self.send_log(path, offset)
        except FileNotFoundError:
            if attempt not in (0, last):
                raise Rejected(404, "there is no output of attempt %d here" % attempt)
            self.send(200, b"")

    def send_log(self, path, offset):
        """A file from a byte on, as it is now. Raises FileNotFoundError."""
        with open(path, "rb", buffering=0) as f:
            if descriptors.reserved(f.fileno(), part=0.5):
                raise Rejected(503, "the keeper has too many clients for another log")
            size = os.fstat(f.fileno()).st_size
            offset = min(max(0, offset), size)
            block = self.small(f, offset, size)
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(size - offset))
                self.end_headers()
                sent = self.connection.sendfile(f, offset, size - offset) if block is None else self.wfile.write(block)
                self.close_connection = self.close_connection or sent < size - offset
            except OSError:
                self.close_connection = True

    @staticmethod
    def small(f, offset, end):
        """The bytes of a file between two places where they are few, and closes it: a client that reads slowly keeps no file open for what is sent at once. None: they are more."""
        if end - offset > AT_ONCE:
            return None
        block = os.pread(f.fileno(), max(0, end - offset), offset)
        f.close()
        return block

    def begin_chunks(self):
        """An answer whose length is not known yet."""
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_chunks(self, path, offset, end, unchanged):
        """A file between two bytes. Returns up to where it was sent. unchanged(): whether the path still names the file that was meant."""
        try:
            with open(path, "rb", buffering=0) as f:
                if not unchanged():
                    return offset
                if descriptors.reserved(f.fileno(), part=0.5):
                    self.close_connection = True  # who follows comes back when there are fewer
                    return offset
                block = self.small(f, offset, end)
                if block is None:
                    self.wfile.write(b"%x\r\n" % (end - offset))
                    sent = offset + self.connection.sendfile(f, offset, end - offset)
                    if sent == end:
                        self.wfile.write(b"\r\n")
                else:
                    sent = offset + len(block)
                    if block:  # an empty chunk would be the last one
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
                self.close_connection = self.close_connection or sent < end  # it is shorter than it was: who follows asks again
                return sent
        except FileNotFoundError:
            pass  # it was not begun
        except OSError:
            self.close_connection = True
        return offset

    def end_chunks(self):
        try:
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def client_left(self):
        """Whether the other end of the connection was closed. A client that waits for an answer sends nothing."""
        try:
            poll = select.poll()
            poll.register(self.connection, select.POLLIN)
            self.close_connection = self.close_connection or bool(poll.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            self.close_connection = True
        return self.close_connection
