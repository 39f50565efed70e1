"""The keeper's HTTP API (docs/keeper.md). Its threads read the state document and put requests into the keeper's mailbox."""

import hmac
import json
import os
import re
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rayctl_keeper.http.mail import Conflict

MAX_WAIT = 60.0
MAX_DOCUMENT = 4 << 20  # of a JSON body
PACKAGE_NAME = re.compile(r"^package-[A-Za-z0-9._+!-]{1,200}\.(zip|whl|jar)$")


class Rejected(Exception):
    """An answer other than 200."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def serve(keeper, listen, token):
    """Starts the API in a daemon thread; returns host and port."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    server_class = type("Server", (ThreadingHTTPServer,), {
        "daemon_threads": True, "request_queue_size": 64,
        "address_family": socket.AF_INET6 if ":" in host else socket.AF_INET,
        "server_bind": _bind,
    })
    handler = type("BoundHandler", (Handler,), {"keeper": keeper, "token": token.encode()})
    server = server_class((host, int(port)), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 3600}, daemon=True, name="api").start()
    return server.server_address[:2]


def _bind(self):
    # HTTPServer.server_bind asks DNS for our own name, which hangs on machines with a dead resolver.
    self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    self.socket.bind(self.server_address)
    self.server_address = self.socket.getsockname()
    self.server_name, self.server_port = self.server_address[:2]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    timeout = 120  # of a silent connection
    disable_nagle_algorithm = True
    keeper = token = None

    def do_GET(self):
        self._answer(self._get)

    def do_PUT(self):
        self._answer(self._put)

    def do_POST(self):
        self._answer(self._post)

    def finish(self):
        self.keeper.state.left(self)
        super().finish()

    def log_message(self, format, *args):
        pass  # keeper.log has decisions, not requests

    def _answer(self, call):
        self.keeper.state.answering(1)
        try:
            self._authorize()
            url = urllib.parse.urlsplit(self.path)
            answer = call(url.path, dict(urllib.parse.parse_qsl(url.query)))
            if answer is not None:
                self._send(200, answer)
        except Rejected as rejected:
            # The body may be unread: the connection is of no further use.
            self.close_connection = True
            self._send(rejected.status, json.dumps({"error": str(rejected)}).encode())
        except (OSError, ValueError) as error:
            self.close_connection = True
            self._send(500, json.dumps({"error": str(error)}).encode())
        finally:
            self.keeper.state.answering(-1)

    def _authorize(self):
        for name in ("Authorization", "X-Ray-Authorization"):
            scheme, _, given = self.headers.get(name, "").partition(" ")
            if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token):
                return
        raise Rejected(401, "the keeper's token is missing or wrong")

    def _send(self, status, body, kind="application/json"):
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client left

    def _get(self, path, query):
        if path == "/v1/state":
            if "after" not in query:
                return self.keeper.state.json()
            return self.keeper.state.wait(int(query["after"]), min(MAX_WAIT, float(query.get("timeout", 20))), self)
        if path == "/v1/log":
            return self._log(int(query.get("attempt", 0)), int(query.get("offset", 0)))
        raise Rejected(404, "no such call: GET %s" % path)

    def _log(self, attempt, offset):
        path = self.keeper.driver_log.path(attempt)
        try:
            with open(path, "rb") as f:
                size = os.fstat(f.fileno()).st_size
                f.seek(min(max(0, offset), size))
                left = size - f.tell()
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(left))
                self.end_headers()
                while left:
                    block = f.read(min(left, 1 << 20))
                    if not block:
                        self.close_connection = True
                        break
                    self.wfile.write(block)
                    left -= len(block)
        except FileNotFoundError:
            if attempt not in (0, self.keeper.state.doc["attempt"]):
                raise Rejected(404, "there is no output of attempt %d here" % attempt)
            return b""  # not yet
        except OSError:
            self.close_connection = True
        return None

    def _put(self, path, _query):
        name = urllib.parse.unquote(path[len("/v1/packages/"):])
        if not path.startswith("/v1/packages/") or not PACKAGE_NAME.match(name):
            raise Rejected(404, "packages are PUT to /v1/packages/package-HASH.zip")
        if self.headers.get("Content-Length") is None:
            raise Rejected(411, "Content-Length is missing")
        target = os.path.join(self.keeper.run_dir, name)
        temporary = "%s.%d.tmp" % (target, id(self))
        try:
            self._store(temporary, int(self.headers["Content-Length"]))
            os.replace(temporary, target)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
        return b"{}"

    def _store(self, path, left):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
            while left:
                block = self.rfile.read1(min(left, 1 << 20))  # what has arrived: on a slow line a whole piece may take minutes
                if not block:
                    raise Rejected(400, "the package is shorter than its Content-Length")
                f.write(block)
                left -= len(block)
                self.keeper.hear()

    def _post(self, path, _query):
        size = int(self.headers.get("Content-Length") or 0)
        if size > MAX_DOCUMENT:
            raise Rejected(413, "the request is longer than 4 MiB")
        try:
            body = json.loads(self.rfile.read(size).decode() or "{}")
        except ValueError:
            raise Rejected(400, "the request is not JSON")
        if not isinstance(body, dict):
            raise Rejected(400, "the request is not a JSON object")
        if path == "/v1/commit":
            try:
                self.keeper.take_commit(body)
            except Conflict as conflict:
                raise Rejected(409, str(conflict))
            return self.keeper.state.json()
        what = path[len("/v1/"):]
        if path not in ("/v1/renew", "/v1/end", "/v1/extend", "/v1/disconnect"):
            raise Rejected(404, "no such call: POST %s" % path)
        check(what, body)
        if body.get("idle") is not None and self.keeper.orders.get("job"):
            raise Rejected(409, "a run has no idle limit: it ends with its driver")
        self.keeper.post(what, body)
        return self.keeper.state.json()


NUMBERS = {"end": ("grace",), "extend": ("max", "idle"), "disconnect": ("after",), "renew": ()}


def check(what, body):
    """Refuses numbers that are not."""
    for name in NUMBERS[what]:
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
            raise Rejected(400, "%s is not a number of seconds" % name)
    if what == "disconnect" and body.get("after") is None:
        raise Rejected(400, "after is missing")
