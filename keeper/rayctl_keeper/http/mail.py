"""The keeper's mailbox: what the API's threads, the client's pipe and signals leave for the main thread."""

import json
import os
import threading
import time

from rayctl_keeper.state.document import wall, write_atomically
from rayctl_keeper.state.exits import End


class Conflict(Exception):
    """Another commit than the one that was taken."""


class Mailbox:
    """The part of the keeper that others write to. Only hear, post and take_commit may be called from other threads."""

    def __init__(self, run_dir, bell, state):
        self.run_dir, self.bell, self.state = run_dir, bell, state
        self._lock = threading.Lock()
        self._letters = []
        self._stdin = None
        self.heard_at = float("-inf")  # when the client's last piece of a package came
        self.commit = None  # the commit document, once it was taken
        self.asked = None  # the End somebody asked for
        self.now = False  # without grace
        self.mail_aborts = None  # the dashboard whose request an end may cut
        bell.on_signal = self.abort

    def watch_stdin(self):
        """From now on the end of file on stdin means that the client is gone, or done."""
        self._stdin = 0

    def stdin_fds(self):
        """File descriptors to wait for."""
        return [] if self._stdin is None else [self._stdin]

    def abort(self):
        """Cuts a request that is under way, so that the main thread looks here soon."""
        if self.mail_aborts is not None:
            self.mail_aborts.abort()

    def post(self, what, body):
        """From the API: leaves a letter and waits a moment until it was read."""
        read = threading.Event()
        with self._lock:
            self._letters.append((what, body, read))
        self.bell.ring()
        if what == "end":
            self.abort()
        else:
            read.wait(3.0)

    def hear(self):
        """From the API: the client is alive, and busy. It rings no bell: its lease is looked at when it falls due."""
        self.heard_at = time.monotonic()

    def take_commit(self, body):
        """From the API: stores the commit; the same again is fine, another one is a Conflict."""
        text = json.dumps(body, sort_keys=True).encode()
        path = os.path.join(self.run_dir, "commit")
        with self._lock:
            try:
                with open(path, "rb") as f:
                    if json.loads(f.read().decode() or "{}") != body:
                        raise Conflict("the launch was committed with other packages or another runtime environment")
            except FileNotFoundError:
                write_atomically(path, text)
        self.bell.ring()

    def read_mail(self, ready):
        """In the main thread: acts on letters and on the client's pipe."""
        with self._lock:
            letters, self._letters = self._letters, []
        for what, body, read in letters:
            getattr(self, "on_" + what)(body)
            read.set()
        if self.limits.since["lease"] is not None:  # not committed yet
            self.limits.restart("lease", max(self.limits.since["lease"], self.heard_at))
        self.look_for_commit()
        if self._stdin in ready and not os.read(0, 4096):
            self._stdin = None
            self.look_for_commit()  # written just before the pipe was closed
            if not self.state.doc["committed"]:
                self.asked = self.asked or End("abandoned", "the client died before it committed the launch")

    def look_for_commit(self):
        """Takes the commit if it is there."""
        if self.commit is not None:
            return
        try:
            with open(os.path.join(self.run_dir, "commit"), "rb") as f:
                self.commit = json.loads(f.read().decode() or "{}")
        except FileNotFoundError:
            return
        except ValueError as error:
            raise End("submit-failed", "the commit document is damaged: %s" % error)
        self.committed()

    def committed(self):
        """The client is done with its part."""
        if self.state.doc["committed"]:
            return
        self._stdin = None
        self.limits.stop("lease")
        self.start_renewals()
        self.state.note("commit", "", "", "")
        self.state.change(committed=True)

    def start_renewals(self):
        """end-on-disconnect counts from now."""
        after = self.limits.seconds["disconnect"]
        if after:
            self.limits.restart("disconnect", time.monotonic())
        else:
            self.limits.stop("disconnect")
        self.state.change(endOnDisconnect=after)

    def on_renew(self, _body):
        """POST /v1/renew: by our own clock, never the client's."""
        if self.limits.since["disconnect"] is not None:
            self.limits.restart("disconnect", time.monotonic())
        self.state.change(lastRenewal=wall())

    def on_disconnect(self, body):
        """POST /v1/disconnect"""
        self.limits.seconds["disconnect"] = float(body["after"])
        self.start_renewals()

    def on_extend(self, body):
        """POST /v1/extend"""
        for name in ("max", "idle"):
            if body.get(name) is not None:
                self.limits.extend(name, time.monotonic(), body[name])
                self.state.note("extend", name, "", "%s seconds" % body[name])
        self.show_deadlines()

    def on_end(self, body):
        """POST /v1/end: the first counts, a second one may skip the grace."""
        if body.get("now"):
            self.now = True
        if self.asked is None and not self.stopping:
            cause = body.get("cause") or "down"
            message = body.get("message") or "the cluster was ended" + (" by " + body["by"] if body.get("by") else "")
            self.asked = End(cause, message, body.get("grace"), body.get("by", ""))
