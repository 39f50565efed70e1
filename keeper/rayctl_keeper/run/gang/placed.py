"""Pods that get their nodes one by one, without a scheduler of gangs: lifetime.start does not count while a required one has no node, which may have to be
made first. Until then lifetime.queue counts on, although the head is there."""

import time

from rayctl_keeper.state.document import seconds_of
from rayctl_keeper.state.model import Event, NodeState, Phase

EVENT = (Event.NODE, "Granted")  # in the timeline


class Placed:
    """The reports of pods about themselves. Only the main thread uses this."""

    def __init__(self, orders, limits, state):
        groups = orders["groups"]
        # The first group has the head, of which it is known that it has a node when it answers.
        required = {g["name"]: g["count"] - (g is groups[0]) for g in groups}
        self._required = {name: count for name, count in required.items() if count > 0}
        self._head_group, self._limits, self._state = groups[0]["name"], limits, state
        self._pods = {}  # group -> pod -> since when it has its node, in epoch seconds
        self.awaited = bool(orders["start"].get("placed") and self._required)  # a required pod has no node, as far as is known

    def resume(self):
        """A previous keeper has the reports of all of them."""
        noted = [e["at"] for e in self._state.doc["timeline"] if (e["event"], e.get("to")) == EVENT]
        if self.awaited and noted:
            self._all_there(seconds_of(noted[-1]))

    def told(self, group, pod, at):
        """POST /v1/granted, from a worker's pod. One that replaces another counts as well: the one that it replaces had its node."""
        pods = self._pods.setdefault(group, {})
        pods[pod] = min(at, pods.get(pod, at))

    def look(self):
        """Called at each wake."""
        if not self.awaited or not self._state.doc["head"]["session"]:
            return
        moments = [self._granted(group, count) for group, count in self._required.items()]
        if all(moment is not None for moment in moments):
            self._state.note(*EVENT, message="all required pods have nodes")
            self._all_there(max(moments))

    def done(self):
        """All nodes are alive, even if their pods could not report."""
        if self.awaited:
            self.awaited = False
            self._limits.stop("queue")

    def _granted(self, group, count):
        """Since when that many pods of a group have nodes; None: they do not. A node that is alive in Ray counts, also if its pod could not report."""
        moments = sorted(self._pods.get(group, {}).values())
        if len(moments) >= count:
            return moments[count - 1]
        alive = sum(n["state"] == NodeState.ALIVE and n["group"] == group for n in self._state.doc["nodes"]) - (group == self._head_group)
        return time.time() if alive >= count else None

    def _all_there(self, since):
        """lifetime.start counts from then on, though not from before it was known that the head has a node."""
        now, offset = time.monotonic(), time.time() - time.monotonic()
        answered = [seconds_of(e["at"]) for e in self._state.doc["timeline"] if e["event"] == Event.PHASE and e.get("to") == Phase.STARTING]
        self.awaited = False
        self._limits.stop("queue")
        self._limits.begin("start", min(now, max([since] + answered[-1:]) - offset))
