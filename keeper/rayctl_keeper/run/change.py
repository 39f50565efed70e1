"""A changed cluster file: what a living cluster takes of it, all of it or nothing. The main thread's, but for the refusal in the request's body."""

import json
import os
import time

from rayctl_keeper.run.elastic.sizes import Refusal
from rayctl_keeper.state.document import seconds_of, write_atomically
from rayctl_keeper.state.exits import duration
from rayctl_keeper.state.model import Event, Phase


class Change:
    """Compares the file with the one that was accepted before it, so that limits and sizes that were set by hand since stay where the file has not changed."""

    def __init__(self, orders, run_dir, limits, elastic, external, state):
        self._run_dir, self._limits, self._elastic, self._external, self._state = run_dir, limits, elastic, external, state
        self._lifetime = dict(orders.get("lifetime") or {})

    def apply(self, body):
        """POST /v1/change. A refusal is left in the body."""
        wanted = {name: float(body["lifetime"].get(name) or 0) for name in ("max", "idle", "idleGpu")}
        changed = {name: seconds for name, seconds in wanted.items() if seconds != float(self._lifetime.get(name) or 0)}
        try:
            if self._elastic.closed:
                raise Refusal("the cluster ends")
            if changed.get("max"):
                self._leaves_time(changed["max"])
            if self._external and body.get("resized"):
                raise Refusal("scaling.idle is changed in the RayCluster, which only a newer rayctl does")
            resize = (lambda: None) if self._external else self._elastic.resized(body["groups"], body.get("scaling"))
        except Refusal as refusal:
            body["refusal"] = str(refusal)
            return
        if body.get("check"):
            return
        try:
            self._save(body["specHash"], wanted)
            resize()
        except OSError as error:
            body["refusal"] = "the changed file cannot be kept: %s" % error
            return
        self._lifetime.update(wanted)
        for name, seconds in changed.items():
            self._set(name, seconds)
        if body["specHash"] != self._state.doc["specHash"]:
            self._state.change(specHash=body["specHash"], changes=self._state.doc["changes"] + 1)
        self._state.deadlines(self._limits)

    def _admitted(self):
        """Seconds since the nodes were admitted; None: they were not yet. A keeper that follows another has it in the timeline."""
        begun = next((e["at"] for e in self._state.doc["timeline"] if e["event"] == Event.PHASE and e.get("to") == Phase.STARTING), None)
        return None if begun is None else max(0.0, time.time() - seconds_of(begun))

    def _leaves_time(self, seconds):
        since = self._admitted()
        if since is not None and since >= seconds:
            raise Refusal("lifetime.max of %s has passed already, the cluster is there for %s" % (duration(seconds), duration(since)))

    def _set(self, name, seconds):
        """lifetime.max counts from the admission, lifetime.idle anew: else a shorter one might end the cluster at once."""
        now = time.monotonic()
        since = self._limits.since[name]
        self._limits.extend(name, now, seconds)
        if name == "max":
            admitted = self._admitted()
            self._limits.since[name] = since if admitted is None else now - admitted
        self._state.note("change", "lifetime." + name, "", duration(seconds) if seconds else "unlimited")

    def _save(self, spec_hash, lifetime):
        """For a keeper that follows this one: first, so that a disk that is full changes nothing."""
        path = os.path.join(self._run_dir, "orders.json")
        with open(path) as f:
            orders = json.load(f)
        orders.update(specHash=spec_hash, lifetime=dict(orders.get("lifetime") or {}, **lifetime))
        write_atomically(path, json.dumps(orders).encode())
