"""The keeper's mailbox: the requests that the API's threads, the client's pipe and signals pass to the main thread."""

import json
import os
import threading
import time
import traceback

from rayctl_keeper.http import bodies
from rayctl_keeper.http.server import Rejected
from rayctl_keeper.state.document import wall, write_atomically
from rayctl_keeper.state.exits import AttemptLost, End, duration
from rayctl_keeper.state.model import Cause


class Conflict(Exception):
    """The commit differs from the one that was stored."""


class Letter:
    """A request to the main thread."""

    def __init__(self, what, body):
        self.what, self.body = what, body
        self.read = threading.Event()  # set when the main thread has handled the request
        self.failure = None  # why it could not be handled


class Mailbox:
    """Requests to the keeper's main thread. Other threads may call only hear, post and take_commit."""

    def __init__(self, run_dir, bell, state, limits, log):
        self._run_dir, self._bell, self._state, self._limits, self._log = run_dir, bell, state, limits, log
        self._lock = threading.Lock()
        self._letters = []
        self._stdin = None
        self.heard_at = float("-inf")  # time of the last piece of a package from the client
        self.commit = None  # the commit document; None before the commit
        self.asked = None  # the requested End
        self.now = False  # the requested end skips the grace
        self.leaving = None  # (message, seconds): the head's pod is going to be taken away, within these seconds
        self.head_ended = ""  # why Ray in the head's pod has ended, as that pod reported it
        self.elastic = None  # the object that starts and ends nodes for Ray's autoscaler
        self.unmet = None  # the object that shows what waits for resources that no node can have
        self.gpus = None  # the object that takes the measurements of pods
        self.early = self.placed = None  # receivers of the reports that pods have nodes: in a cluster with an early head, and in one without a gang scheduler
        self.fetch = None  # the object that delays the end of a run until a client has copied the output directory
        self.change = None  # the function that applies a changed cluster file
        self.aborts = None  # the dashboard whose current request an end may abort
        self._closed = False  # the end has begun
        bell.on_signal = self.abort

    def watch_stdin(self):
        """Watches stdin: from now on an end of file means that the client has died or has committed."""
        self._stdin = 0

    def stdin_fds(self):
        """File descriptors to wait for."""
        return [] if self._stdin is None else [self._stdin]

    def abort(self):
        """Aborts the current request to the dashboard, so that the main thread reads this mailbox soon."""
        dashboard = self.aborts
        if dashboard is not None:
            dashboard.abort()

    def close(self):
        """Called when the end begins: from now on no signal or call aborts a request to Ray, and no other End is accepted."""
        self._closed, self.aborts = True, None

    def resume(self, end_on_disconnect):
        """Continues after an earlier keeper whose launch was committed. end_on_disconnect is in seconds."""
        self._limits.stop("lease")
        self._limits.seconds["disconnect"] = end_on_disconnect
        self._start_renewals()

    def packages(self):
        """The packages of the commit document."""
        return (self.commit or {}).get("packages") or []

    def post(self, what, body, patience=3.0):
        """From the API: adds a request and waits up to patience seconds until the main thread has handled it; returns whether it was handled. Raises Rejected if
        it failed."""
        letter = Letter(what, body)
        with self._lock:
            self._letters.append(letter)
        self._bell.ring()
        if what == "end":
            self.abort()
            return False
        handled = letter.read.wait(patience)
        if letter.failure:
            raise Rejected(500, letter.failure)
        return handled

    def hear(self):
        """From the API: the client has sent a piece of a package. This does not wake the main thread: it reads the time when the lease runs out."""
        self.heard_at = time.monotonic()

    def take_commit(self, body):
        """From the API: stores the commit. The same commit again is accepted; a different one raises Conflict."""
        text = json.dumps(body, sort_keys=True).encode()
        path = os.path.join(self._run_dir, "commit")
        with self._lock:
            try:
                with open(path, "rb") as f:
                    if json.loads(f.read().decode() or "{}") != body:
                        raise Conflict("the launch was committed with other packages or another runtime environment")
            except FileNotFoundError:
                write_atomically(path, text)
        self._bell.ring()

    def read_mail(self, ready):
        """In the main thread: handles requests and the end of the client's pipe."""
        with self._lock:
            letters, self._letters = self._letters, []
        for letter in letters:
            try:
                getattr(self, "_on_" + letter.what)(letter.body)
            except (End, AttemptLost):
                raise
            except Exception as error:  # a bug: the client gets the error, and the cluster continues
                self._log("POST /v1/%s failed: %s" % (letter.what, traceback.format_exc()))
                letter.failure = "the keeper failed: %s: %s" % (type(error).__name__, error)
            finally:
                letter.read.set()
        if self._limits.since["lease"] is not None:  # not committed yet
            self._limits.restart("lease", max(self._limits.since["lease"], self.heard_at))
        self.look_for_commit()
        if self._stdin in ready and not os.read(0, 4096):
            self._stdin = None
            self.look_for_commit()  # the client may have committed just before it closed the pipe
            if not self._state.doc["committed"]:
                self.asked = self.asked or End(Cause.ABANDONED, "the client died before it committed the launch")

    def look_for_commit(self):
        """Reads the commit document if it exists. Raises End if it is damaged."""
        if self.commit is not None:
            return
        try:
            with open(os.path.join(self._run_dir, "commit"), "rb") as f:
                self.commit = bodies.commit(json.loads(f.read().decode() or "{}"))
        except FileNotFoundError:
            return
        except (ValueError, AttributeError, RecursionError, Rejected) as error:
            raise End(Cause.SUBMIT_FAILED, "the commit document is damaged: %s" % error)
        self.committed()

    def committed(self):
        """The launch is committed: the lease and the client's pipe no longer matter."""
        if self._state.doc["committed"]:
            return
        self._stdin = None
        self._limits.stop("lease")
        self._start_renewals()
        self._state.note("commit", "", "", "")
        self._state.change(committed=True)

    def _start_renewals(self):
        """Starts the time of end-on-disconnect again, or stops it if it is 0."""
        after = self._limits.seconds["disconnect"]
        if after:
            self._limits.restart("disconnect", time.monotonic())
        else:
            self._limits.stop("disconnect")
        self._state.change(endOnDisconnect=after)

    def _on_renew(self, _body):
        """POST /v1/renew. Times are of the keeper's clock, never of the client's."""
        if self._limits.since["disconnect"] is not None:
            self._limits.restart("disconnect", time.monotonic())
        self._state.change(lastRenewal=wall())

    def _on_disconnect(self, body):
        """POST /v1/disconnect"""
        self._limits.seconds["disconnect"] = float(body["after"])
        self._start_renewals()

    def _on_extend(self, body):
        """POST /v1/extend"""
        if body.get("maxBy") is not None and self._limits.seconds["max"]:
            self._limits.prolong("max", body["maxBy"])
            self._state.note("extend", "max", "", "by %s seconds" % body["maxBy"])
        for name in ("max", "idle"):
            if body.get(name) is not None and not (name == "max" and body.get("atMost") and self._ends_before(body[name])):
                self._limits.extend(name, time.monotonic(), body[name])
                self._state.note("extend", name, "", "%s seconds" % body[name])
        self._state.deadlines(self._limits)

    def objection(self, body):
        """From the API: returns the reason why POST /v1/extend refuses the request, or None."""
        left = self._limits.left("max", time.monotonic())
        if body.get("maxBy") is not None and left is None:
            return "the cluster has no lifetime.max that could be moved"
        if body.get("later") and body.get("max") and not self._ends_before(body["max"]):
            return "the cluster would then end earlier than at present: it has no lifetime.max" if left is None else \
                "the cluster would then end earlier than at present: lifetime.max leaves it %s" % duration(left)
        return None

    def _ends_before(self, seconds):
        """Returns whether lifetime.max already ends the cluster within this number of seconds."""
        left = self._limits.left("max", time.monotonic())
        return left is not None and left <= seconds

    def _on_nodes(self, body):
        """POST /v1/nodes"""
        if body["unmet"] is not None:
            self.unmet.take(body["unmet"])
        if body["launch"] or body["release"] or body["held"] is not None:
            self.elastic.change(body)

    def _on_scale(self, body):
        """POST /v1/scale"""
        self.elastic.scale(body)

    def _on_offers(self, body):
        """POST /v1/offers"""
        self.elastic.offers(body)

    def _on_leaving(self, body):
        """POST /v1/leaving, from the head's pod"""
        self.leaving = "the head's pod%s is being taken away" % (" " + body["by"] if body.get("by") else ""), float(body["seconds"])

    def _on_ended(self, body):
        """POST /v1/ended, from the head's pod"""
        self.head_ended = body["message"]

    def _on_granted(self, body):
        """POST /v1/granted, from pods"""
        if body["part"] == "worker":
            self.placed.told(body["group"], body["pod"], body["at"])
        else:
            self.early.granted(body["part"], body["at"])

    def _on_change(self, body):
        """POST /v1/change"""
        self.change.apply(body)

    def _on_end(self, body):
        """POST /v1/end: only the first call sets the cause; a second one may skip the grace."""
        if body.get("now"):
            self.now = True
        if self.asked is None and not self._closed:
            cause = body.get("cause") or Cause.DOWN
            message = body.get("message") or "the cluster was ended" + (" by " + body["by"] if body.get("by") else "")
            self.asked = End(cause, message, body.get("grace"), body.get("by", ""))
