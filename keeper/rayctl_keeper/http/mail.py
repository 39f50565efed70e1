"""The keeper's mailbox: what the API's threads, the client's pipe and signals leave for the main thread."""

import json
import os
import threading
import time

from rayctl_keeper.state.document import wall, write_atomically
from rayctl_keeper.state.exits import End, duration


class Conflict(Exception):
    """Another commit than the one that was taken."""


class Mailbox:
    """Where others write to the keeper. Only hear, post and take_commit may be called from other threads."""

    def __init__(self, run_dir, bell, state, limits):
        self._run_dir, self._bell, self._state, self._limits = run_dir, bell, state, limits
        self._lock = threading.Lock()
        self._letters = []
        self._stdin = None
        self.heard_at = float("-inf")  # when the client's last piece of a package came
        self.commit = None  # the commit document, once it was taken
        self.asked = None  # the End somebody asked for
        self.now = False  # without grace
        self.leaving = None  # (message, seconds): the head is going to be taken away
        self.elastic = None  # who starts and ends nodes for Ray's autoscaler
        self.gpus = None  # who hears what pods have measured
        self.change = None  # who takes a changed cluster file
        self.aborts = None  # the dashboard whose request an end may cut
        self._closed = False  # the end is being carried out
        bell.on_signal = self.abort

    def watch_stdin(self):
        """From now on the end of file on stdin means that the client is gone, or done."""
        self._stdin = 0

    def stdin_fds(self):
        """File descriptors to wait for."""
        return [] if self._stdin is None else [self._stdin]

    def abort(self):
        """Cuts a request that is under way, so that the main thread looks here soon."""
        dashboard = self.aborts
        if dashboard is not None:
            dashboard.abort()

    def close(self):
        """The end is being carried out: no signal and no request aborts a request to Ray any more, and no other End is accepted."""
        self._closed, self.aborts = True, None

    def resume(self, end_on_disconnect):
        """As an earlier keeper had it: the launch was committed."""
        self._limits.stop("lease")
        self._limits.seconds["disconnect"] = end_on_disconnect
        self._start_renewals()

    def packages(self):
        """Those of the commit document."""
        return (self.commit or {}).get("packages") or []

    def post(self, what, body, patience=3.0):
        """From the API: leaves a letter and waits a moment until it was read; returns whether it was."""
        read = threading.Event()
        with self._lock:
            self._letters.append((what, body, read))
        self._bell.ring()
        if what == "end":
            self.abort()
            return False
        return read.wait(patience)

    def hear(self):
        """From the API: the client is alive, and busy. It rings no bell: its lease is looked at when it falls due."""
        self.heard_at = time.monotonic()

    def take_commit(self, body):
        """From the API: stores the commit; the same again is fine, another one is a Conflict."""
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
        """In the main thread: acts on letters and on the client's pipe."""
        with self._lock:
            letters, self._letters = self._letters, []
        for what, body, read in letters:
            getattr(self, "_on_" + what)(body)
            read.set()
        if self._limits.since["lease"] is not None:  # not committed yet
            self._limits.restart("lease", max(self._limits.since["lease"], self.heard_at))
        self.look_for_commit()
        if self._stdin in ready and not os.read(0, 4096):
            self._stdin = None
            self.look_for_commit()  # written just before the pipe was closed
            if not self._state.doc["committed"]:
                self.asked = self.asked or End("abandoned", "the client died before it committed the launch")

    def look_for_commit(self):
        """Takes the commit if it is there."""
        if self.commit is not None:
            return
        try:
            with open(os.path.join(self._run_dir, "commit"), "rb") as f:
                self.commit = json.loads(f.read().decode() or "{}")
        except FileNotFoundError:
            return
        except ValueError as error:
            raise End("submit-failed", "the commit document is damaged: %s" % error)
        self.committed()

    def committed(self):
        """The client is done with its part."""
        if self._state.doc["committed"]:
            return
        self._stdin = None
        self._limits.stop("lease")
        self._start_renewals()
        self._state.note("commit", "", "", "")
        self._state.change(committed=True)

    def _start_renewals(self):
        """end-on-disconnect counts from now."""
        after = self._limits.seconds["disconnect"]
        if after:
            self._limits.restart("disconnect", time.monotonic())
        else:
            self._limits.stop("disconnect")
        self._state.change(endOnDisconnect=after)

    def _on_renew(self, _body):
        """POST /v1/renew: by our own clock, never the client's."""
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
        """From the API: why POST /v1/extend would not do what it is asked for, or None."""
        left = self._limits.left("max", time.monotonic())
        if body.get("maxBy") is not None and left is None:
            return "the cluster has no lifetime.max that could be moved"
        if body.get("later") and body.get("max") and not self._ends_before(body["max"]):
            return "that would end the cluster earlier than now: it has no lifetime.max" if left is None else \
                "that would end the cluster earlier than now: lifetime.max leaves it %s" % duration(left)
        return None

    def _ends_before(self, seconds):
        """Whether lifetime.max ends the cluster within so many seconds anyway."""
        left = self._limits.left("max", time.monotonic())
        return left is not None and left <= seconds

    def _on_nodes(self, body):
        """POST /v1/nodes"""
        self.elastic.change(body)

    def _on_scale(self, body):
        """POST /v1/scale"""
        self.elastic.scale(body)

    def _on_leaving(self, body):
        """POST /v1/leaving, from the head's pod"""
        self.leaving = "the head's pod%s is being taken away" % (" " + body["by"] if body.get("by") else ""), float(body["seconds"])

    def _on_change(self, body):
        """POST /v1/change"""
        self.change.apply(body)

    def _on_end(self, body):
        """POST /v1/end: the first counts, a second one may skip the grace."""
        if body.get("now"):
            self.now = True
        if self.asked is None and not self._closed:
            cause = body.get("cause") or "down"
            message = body.get("message") or "the cluster was ended" + (" by " + body["by"] if body.get("by") else "")
            self.asked = End(cause, message, body.get("grace"), body.get("by", ""))
