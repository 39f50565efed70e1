"""A server of JSON over HTTP that answers only those who have the cluster's token."""

import hmac
import json
import math
import os
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_DOCUMENT = 4 << 20  # of a request's JSON
PIECE = 1 << 20


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


def serve(handler, host, port, token, look_every=3600.0, **attributes):
    """Starts a server in a daemon thread, whose handlers have these attributes. Its shutdown() is noticed after look_every seconds at most."""
    server_class = type("Server", (ThreadingHTTPServer,), {
        "daemon_threads": True, "request_queue_size": 64,
        "address_family": socket.AF_INET6 if ":" in host else socket.AF_INET,
        "server_bind": _bind,
    })
    server = server_class((host, port), type("BoundHandler", (handler,), dict(attributes, token=token)))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": look_every}, daemon=True, name="api").start()
    return server


def _bind(self):
    # HTTPServer.server_bind asks DNS for our own name, which hangs on machines with a dead resolver.
    self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    self.socket.bind(self.server_address)
    self.server_address = self.socket.getsockname()
    self.server_name, self.server_port = self.server_address[:2]


class Handler(BaseHTTPRequestHandler):
    """One connection. Below it get, put and post take a path and its query, and return the JSON to answer with, or None when they have answered
    themselves. They are called for requests with the token; of others nothing is read but the headers."""

    protocol_version = "HTTP/1.1"
    timeout = 120  # of a silent connection
    disable_nagle_algorithm = True
    token = None  # bytes

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
        except (OSError, ValueError) as error:
            self.close_connection = True
            self.send(500, json.dumps({"error": str(error)}).encode())

    def authorized(self):
        """Whether the request has the token."""
        for name in ("Authorization", "X-Ray-Authorization"):
            scheme, _, given = self.headers.get(name, "").partition(" ")
            if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token):
                return True
        return False

    def body(self):
        """The request's JSON, of limited length."""
        size = int(self.headers.get("Content-Length") or 0)
        if not 0 <= size <= MAX_DOCUMENT:
            raise Rejected(413, "the request is longer than 4 MiB")
        try:
            body = json.loads(self.rfile.read(size).decode() or "{}", parse_constant=finite, parse_float=finite, parse_int=moderate)
        except (ValueError, RecursionError):
            raise Rejected(400, "the request is not JSON")
        if not isinstance(body, dict):
            raise Rejected(400, "the request is not a JSON object")
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
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            f.seek(min(max(0, offset), size))
            left = size - f.tell()
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(left))
                self.end_headers()
                while left:
                    block = f.read(min(left, PIECE))
                    if not block:
                        self.close_connection = True
                        break
                    self.wfile.write(block)
                    left -= len(block)
            except OSError:
                self.close_connection = True
