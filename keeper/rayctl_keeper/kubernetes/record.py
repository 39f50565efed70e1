"""The record of a cluster: `keeper.pyz record KEEPER_URL TOKEN_FILE`.

Watches the keeper until it has the result, fetches it, prints the driver's log, or where there was no driver what is kept of submitted jobs, and leaves the final state document as
the container's termination message. A keeper in another pod gets from it the state of the one before. It needs no permission in Kubernetes."""

import base64
import http.client
import json
import os
import shutil
import sys
import time
import urllib.parse
import urllib.request
import zlib

from rayctl_keeper.kubernetes import sidecars
from rayctl_keeper.kubernetes.again import until_answered
from rayctl_keeper.ray import addresses
from rayctl_keeper.run.allocations.former import SHOWN, folded
from rayctl_keeper.state.conclude import Verdict, conclude
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.model import Cause, Phase

LONG_POLL = 50
CONNECT = 3.0  # seconds; DNS may still return the address of a deleted pod, which does not even refuse connections
PAUSE, LONGEST_PAUSE = 0.1, 1.0  # between questions that nobody answered
PREFIX = 50  # bytes that the runtime puts before each line
WHOLE = 8 << 20  # a log up to this size is printed as it is
PIECE = 1 << 20
HINT = b"""# Packed, because kubelets drop the beginning of a long log. `rayctl logs NAME` reads it, or: kubectl logs job/NAME-record | \
python3 -c 'import base64,sys,zlib; [sys.stdout.buffer.write(zlib.decompress(base64.b64decode(l.split()[1]))) for l in sys.stdin.buffer if l.split()[0].isdigit()]'
"""
JOBS_HINT = b"# What is kept of submitted jobs. `rayctl jobs NAME` and `rayctl logs NAME JOB` read it, or: kubectl logs job/NAME-record | grep -v '^#' | base64 -d | tar xz\n"
JOBS_PIECE = 9 << 10  # bytes to a line: in base64 it is shorter than what a container's runtime cuts, 16 KiB
MESSAGE_LIMIT = 4096  # of Kubernetes
FEW = 30  # nodes of elastic groups, if there is no room for all; of the others the sums
MESSAGE = os.environ.get("RAYCTL_TERMINATION_LOG", "/dev/termination-log")


def main(arguments):
    """Entry point."""
    url, token_file = arguments
    keeper = Keeper(url, token_file)
    state = keeper.final_state()
    directory, earlier, jobs = os.environ.get("TMPDIR", "/tmp"), [], False
    path, jobs_path = os.path.join(directory, "driver.log"), os.path.join(directory, "jobs.tgz")
    if "exit" in state:
        earlier = [keeper.fetch_earlier(path, n) for n in range(1, state.get("attempt", 1))]
        log = state.get("log") or {"bytes": 0}
        keeper.fetch_log(path, sum(earlier), log["bytes"])
        have = max(0, size_of(path) - sum(earlier))
        if have < log["bytes"]:  # the keeper was lost with it
            state["log"] = dict(log, bytes=have, missing=(log.get("missing") or []) + [[have, -1]])
        jobs = not state.get("job") and keeper.fetch_jobs(jobs_path)
        keeper.recorded()
    else:
        state = vanished(state)
    packed = rotates(path)
    with open(MESSAGE, "wb") as f:
        f.write(message(dict(state, packed=packed, earlier=earlier, **({"jobs": True} if jobs else {}))))
    show(path, packed)
    if jobs:
        show_jobs(jobs_path)
    sidecars.quit_all()
    return 0


def rotates(path):
    """Whether a kubelet with the usual containerLogMaxSize (10 MiB, counting its own prefix of each line) would drop the beginning of the log."""
    if not os.path.exists(path):
        return False
    with open(path, "rb") as f:
        lines = sum(block.count(b"\n") for block in iter(lambda: f.read(1 << 20), b""))
    return os.path.getsize(path) + PREFIX * lines > WHOLE


def show(path, packed):
    """Prints the driver's log as it is; or packed, one line "OFFSET BASE64" for each piece, so that what is left of it can be read, after a
    line for whoever finds that in `kubectl logs`."""
    if not os.path.exists(path):
        return
    out, at = sys.stdout.buffer, 0
    out.write(HINT if packed else b"")
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(PIECE), b""):
            out.write(b"%d %s\n" % (at, base64.b64encode(zlib.compress(block))) if packed else block)
            at += len(block)
    out.flush()


def show_jobs(path):
    """Prints the file that has all that is kept of submitted jobs, after a line for whoever finds that in `kubectl logs`."""
    out = sys.stdout.buffer
    out.write(JOBS_HINT)
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(JOBS_PIECE), b""):
            out.write(base64.b64encode(piece) + b"\n")
    out.flush()


class Keeper:
    """The keeper's API, as far as the record needs it."""

    def __init__(self, url, token_file):
        self.url, self.token_file, self.token = url, token_file, read(token_file)
        self.address = addresses.of(urllib.parse.urlsplit(url).hostname)

    def final_state(self):
        """The final state document, or the last one seen of a keeper whose cluster was deleted."""
        state, revision, pause = {}, -1, PAUSE
        while "exit" not in state:
            try:
                with self.call("/v1/state?after=%d&timeout=%d&record=1" % (revision, LONG_POLL), timeout=LONG_POLL + 15) as answer:
                    state = json.load(answer)
                revision, pause = state.get("revision", -1), PAUSE
            except (OSError, ValueError):
                revision = -1  # another keeper counts anew
                if self.deleted():
                    return state
                self.give_predecessor(state)
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        return state

    def give_predecessor(self, state):
        """Sends the last state to a keeper's pod that replaces a lost one; no other pod accepts it (see pod.py). The previous keeper's state
        was lost with its pod, and a driver must not be submitted twice."""
        try:
            self.call("/v1/predecessor", data=json.dumps(state).encode(), timeout=5).close()
        except OSError:
            pass  # no pod is there yet, or its keeper runs

    def deleted(self):
        """Whether the cluster's Secret is deleted, or another cluster's by now. Only that is sure: a keeper that nobody finds may be back in ten
        minutes, the Job controller's longest pause between pods. The Secret ends with the keeper's Job, and what is mounted of it soon after,
        at the kubelet's next look at this pod (a minute or a bit more), because the volume is optional."""
        try:
            return read(self.token_file) != self.token
        except FileNotFoundError:
            return True

    def fetch_earlier(self, path, attempt):
        """Appends the log of an attempt before the last, and returns its size. There is none of one whose driver did not run."""
        before = size_of(path)

        def fetch():
            with self.call("/v1/log?attempt=%d" % attempt, timeout=30) as answer, open(path, "ab") as f:
                f.truncate(before)
                shutil.copyfileobj(answer, f, 1 << 20)

        until_answered(60, fetch, is_not_found)
        return size_of(path) - before

    def fetch_log(self, path, before, size):
        """Appends the driver's log; goes on where it was cut."""
        def fetch():
            have = size_of(path) - before
            if have < size:
                with self.call("/v1/log?offset=%d" % have, timeout=30) as answer, open(path, "ab") as f:
                    shutil.copyfileobj(answer, f, 1 << 20)
            if size_of(path) - before < size:
                raise ConnectionError("cut")

        until_answered(60, fetch)

    def fetch_jobs(self, path):
        """Fetches what is kept of submitted jobs. Returns whether there is anything."""
        def fetch():
            with self.call("/v1/jobs", timeout=60) as answer, open(path, "wb") as f:
                shutil.copyfileobj(answer, f, 1 << 20)
                if f.tell() < int(answer.headers["Content-Length"]):
                    raise ConnectionError("cut")

        return until_answered(60, fetch, is_not_found) is None

    def recorded(self):
        """Confirms to the keeper that the record is complete: its pod may end."""
        until_answered(20, lambda: self.call("/v1/recorded", data=b"{}", timeout=5).close(), lambda _: self.address.unknown)

    def call(self, path, data=None, timeout=10):
        """One request."""
        request = urllib.request.Request(self.url + path, data=data, headers={"Authorization": "Bearer " + self.token})
        return urllib.request.build_opener(urllib.request.ProxyHandler({}), Opener).open(request, timeout=timeout)


class Connection(http.client.HTTPConnection):
    """One to the address that worked last: a question to a name service that is away takes up to a minute. Its timeout is not that of connecting."""

    def connect(self):
        self.sock = addresses.of(self.host).connect(self.port, min(self.timeout, CONNECT))
        self.sock.settimeout(self.timeout)


class Opener(urllib.request.HTTPHandler):
    """Opens Connections."""

    def http_open(self, req):
        return self.do_open(Connection, req)


def read(path):
    """A small file's text."""
    with open(path) as f:
        return f.read().strip()


def size_of(path):
    """Bytes in a file; 0 if it is not there."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def is_not_found(error):
    """Whether the keeper answered that it has no such thing."""
    return getattr(error, "code", None) == 404


def vanished(state):
    """The final state document of a cluster whose keeper was deleted."""
    seen = state.get("committed")
    verdict = Verdict(Cause.LOST, "the keeper was deleted before it could save the result", wall()) if seen else Verdict(Cause.ABANDONED, "the launch was never committed", wall())
    return dict(conclude(state, verdict), log={"bytes": 0, "missing": [[0, -1]] if seen else []})


def message(state):
    """The document in as few bytes as Kubernetes allows: as it is, or packed, or without what is least missed."""
    # What the receipt counts; of nodes of elastic groups there may be many.
    counted = [{k: v for k, v in a.items() if k not in ("id", "queued", "where", "message")} for a in state.get("allocations") or []]
    counted = [dict(a, released=a.get("released") or state.get("since")) for a in counted]  # of a keeper that was deleted
    for names, shown in (((), None), (("nodes",), None), (("nodes",), SHOWN), (("nodes", "attempts"), SHOWN), (("nodes",), FEW),
                         (("nodes", "attempts"), FEW), (("nodes", "attempts", "timeline"), 0)):
        less = {k: v for k, v in state.items() if k not in names}
        figures = [a for a in (state.get("attempts") or [])[-1:] if a.get("figures")]
        if "attempts" in names and figures:
            less["attempts"] = figures
        if shown is not None:
            less.update(folded(state, counted, shown))
        if shown == 0:
            less["allocations"] = less["allocations"][-FEW:]
        text = json.dumps(less, separators=(",", ":")).encode()
        if len(text) <= MESSAGE_LIMIT:
            return text
        packed = b"z:" + base64.b64encode(zlib.compress(text, 9))
        if len(packed) <= MESSAGE_LIMIT:
            return packed
    short = dict(state["exit"], message=(state["exit"].get("message") or "")[:250], by=(state["exit"].get("by") or "")[:50])  # a character may have 12 bytes
    return json.dumps({"exit": short, "phase": Phase.GONE, "since": state.get("since")}).encode()
