"""Holds the end of a run while a client copies the output directory from the nodes, with which it goes (`run --fetch` on Kubernetes)."""

import time

from rayctl_keeper.state.model import Cause, Phase

SILENCE = 60.0  # seconds without a word of the client, which speaks every 10 while bytes arrive
POLL = 0.1


class Fetch:
    """hear may be called by the API's threads; all else is the keeper's."""

    def __init__(self, orders, mail, waiting, state, log):
        self._wanted = bool(orders.get("fetch") and orders.get("job"))
        self._mail, self._waiting, self._state, self._log = mail, waiting, state, log
        self._heard, self._done = 0.0, False

    def hear(self, done):
        """POST /v1/fetch: a client copies, or has copied."""
        self._heard, self._done = time.monotonic(), self._done or done

    def wait(self, end, reachable):
        """Until a client has the files. Nobody is waited for when the nodes are lost or being taken away, or once an end without grace is asked for."""
        if not self._wanted or not reachable or end.cause in (Cause.LOST, Cause.PREEMPTED, Cause.ABANDONED, Cause.DISCONNECTED):
            return
        self._heard = time.monotonic()
        self._state.phase(Phase.DRAINING, end.cause, end.message, "a client copies the output directory; `rayctl down %s` twice ends it at once" % self._state.doc["name"])
        self._state.change(job=dict(self._state.doc["job"], waitsForFetch=True))
        while not self._done and not self._mail.now and not self._waiting.signals():
            if time.monotonic() - self._heard > SILENCE:
                self._log("no client has fetched the output directory")
                break
            self._waiting.rest(POLL)
        self._state.phase(Phase.DRAINING, end.cause, end.message)
        self._state.change(job=dict(self._state.doc["job"], waitsForFetch=False))
