"""A client of Ray's dashboard with the calls that the keeper needs, each with a time-out of its own."""

import http.client
import json
import re
import socket
import time
import urllib.parse

from rayctl_keeper.host import proof
from rayctl_keeper.ray import addresses


class Unreachable(Exception):
    """No usable answer: no server listens, the answer is late or cut off, or the server is not Ray's dashboard."""


class Slow(Unreachable):
    """No answer in time, though a server may be there."""


class Refused(Exception):
    """A response with an error status; the text is one line, the end of Ray's traceback."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Connection(http.client.HTTPConnection):
    """A connection to the address that worked last. If it stays on this host, it is proven that the server is this user's before the token is sent."""

    def connect(self):
        self.sock = addresses.of(self.host).connect(self.port, self.timeout)
        proof.require(self.sock, self.timeout)
        self.sock.settimeout(self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Dashboard:
    """One head's dashboard. A connection for each request: the server may be restarted at any moment."""

    def __init__(self, url, token):
        parts = urllib.parse.urlsplit(url)
        self.url, self.host, self.port = url, parts.hostname, parts.port or 80
        self._headers = {"User-Agent": "rayctl-keeper"}  # Ray 2.40 answers 500 without one
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._socket = None
        self.answered = 0.0  # time of the last answer, also if it was a refusal

    def abort(self):
        """Cuts the request that is under way (from a signal handler or another thread)."""
        sock = self._socket
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def open(self, method, path, timeout, body=None, headers=None):
        """Sends a request; returns connection and response, whose body the caller reads."""
        if not self.host:
            raise Unreachable("it is not known yet where the head's dashboard listens")
        connection = Connection(self.host, self.port, timeout=timeout)
        try:
            connection.connect()
            self._socket = connection.sock
            connection.request(method, path, body, dict(self._headers, **(headers or {})))
            response = connection.getresponse()
            self.answered = time.monotonic()
            return connection, response
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self.unanswered(error)

    def unanswered(self, error):
        """The exception for a request that got no answer."""
        kind = Slow if isinstance(error, (socket.timeout, TimeoutError)) else Unreachable  # two classes before Python 3.10
        return kind("%s: %s" % (self.url, error or type(error).__name__))

    def request(self, method, path, timeout=2.0, body=None, headers=None):
        """Returns the body of a 2xx answer."""
        connection, response = self.open(method, path, timeout, body, headers)
        try:
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self.unanswered(error)
        finally:
            self._socket = None
            connection.close()
        if response.status >= 300:
            raise Refused(response.status, error_line(data) or "HTTP status %d" % response.status)
        return data

    def json(self, method, path, timeout=2.0, body=None):
        """Like request, but sends a value as JSON and returns the value of a JSON answer."""
        data = None if body is None else json.dumps(body).encode()
        answer = self.request(method, path, timeout, data, {"Content-Type": "application/json"} if data else None)
        try:
            return json.loads(answer.decode())
        except ValueError:
            raise Unreachable("%s%s did not answer with JSON" % (self.url, path))

    def version(self, timeout=1.0):
        """{"ray_version": ..., "session_name": ...}"""
        return self.json("GET", "/api/version", timeout)

    def state(self, resource, timeout=2.0, **query):
        """Rows of the state API, such as nodes, tasks, actors."""
        text = urllib.parse.urlencode(dict({"limit": 10000}, **query), doseq=True)
        answer = self.json("GET", "/api/v0/%s?%s" % (resource, text), timeout)
        try:
            return answer["data"]["result"]["result"]
        except (KeyError, TypeError):
            raise Unreachable("%s/api/v0/%s: %s" % (self.url, resource, answer.get("msg", "no result")))

    def job(self, submission_id, timeout=2.0):
        """Ray's record of a submission, None if it has none."""
        try:
            return self.json("GET", "/api/jobs/" + urllib.parse.quote(submission_id, safe=""), timeout)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def submit(self, job, timeout=30.0):
        """Submits a job, which has a submission id: after a failure, ask by job() whether Ray has it, and submit again if not."""
        return self.json("POST", "/api/jobs/", timeout, job)

    def stop(self, submission_id):
        """Asks Ray to stop the driver: SIGTERM, and SIGKILL after RAY_JOB_STOP_WAIT_TIME_S."""
        self.request("POST", "/api/jobs/%s/stop" % urllib.parse.quote(submission_id, safe=""), 5.0)

    def has_package(self, uri):
        """Whether the cluster has a gcs:// package."""
        try:
            self.request("GET", package_path(uri), 60.0)
            return True
        except Refused as refused:
            if refused.status == 404:
                return False
            raise

    def put_package(self, uri, path):
        """Uploads a file as the package of that URI."""
        with open(path, "rb") as f:
            f.seek(0, 2)
            size = f.tell()
            f.seek(0)
            self.request("PUT", package_path(uri), 300.0, f, {"Content-Length": str(size)})

    def log_path(self, kind, node_id, filename, **query):
        """Path of the state API's logs: kind file or stream. logread reads the answer."""
        return "/api/v0/logs/%s?%s" % (kind, urllib.parse.urlencode(
            dict({"node_id": node_id, "filename": filename, "lines": -1, "format": "text"}, **query)))


def package_path(uri):
    """gcs://NAME -> /api/packages/gcs/NAME"""
    protocol, _, name = uri.partition("://")
    return "/api/packages/%s/%s" % (protocol, urllib.parse.quote(name, safe=""))


def error_line(data):
    """The most informative line of a traceback or message, at most 500 characters: the last exception in it, else the last line with words."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    errors = [line for line in lines if re.search(r"\b\w*(Error|Exception)\b: |ERROR: |^error: |No such file", line)]
    return (errors or lines or [""])[-1][:500]


def version_tuple(text):
    """"2.60.0" -> (2, 60); unknown: the newest."""
    try:
        return tuple(int(part) for part in text.split(".")[:2])
    except ValueError:
        return (999, 0)
