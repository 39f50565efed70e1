"""Nodes of Ray whose node of Kubernetes is going to be taken away: Ray drains them, so that tasks end or move, and jobs are warned."""

import time

from rayctl_keeper.ray.dashboard import Refused, Unreachable
from rayctl_keeper.run.end.drain import drain_nodes
from rayctl_keeper.state.model import Event, NodeState

PAUSE = 2.0  # seconds before a drain that Ray has not taken is tried again


class Warned:
    """Everything is for the main thread."""

    def __init__(self, orders, watch, head, state, log):
        """watch knows which machines are going to be taken away (kubernetes/nodewatch.py); None: nobody does."""
        self._name, self._head, self._state, self._log = orders["name"], head, state, log
        self._watch = watch if watch and watch.begin() else None
        self._deadlines = {}  # by node's id, in epoch seconds: those that Ray has
        self._known = set()  # addresses and warnings that were seen to: a worker that ends by its drain may be started again in its pod, on the same machine
        self._not_before = 0.0

    def look(self):
        """Called at each wake."""
        if self._watch is None:
            return
        if self._watch.refused:
            self._state.note(Event.NODE, "Unwatched", "", "the nodes of Kubernetes cannot be watched: %s" % self._watch.refused)
            self._watch = None
            return
        warned = self._watch.warned()
        if warned and self._head.dashboard is not None and time.monotonic() >= self._not_before:
            self._take(warned)

    def _take(self, warned):
        head = self._state.doc["head"]["nodeId"]
        for row in self._state.doc["nodes"]:
            found = warned.get(row["host"])
            if row["state"] != NodeState.ALIVE or found is None or (row["host"], found) in self._known:
                continue
            place, seconds, why, since = found
            if row["nodeId"] == head:  # one that drains and has nothing to do ends at once, with the cluster
                to, message = "Warned", "its node %s: %s; the driver is warned when the head's pod is evicted" % (place, why)
            else:
                to, message = "Draining", "its node %s: %s; Ray drains it" % (place, why)
                deadline = time.time() + seconds - (time.monotonic() - since) if seconds else 0
                before = self._deadlines.get(row["nodeId"])
                if before is not None and (not deadline or 0 < before <= deadline):  # a second warning counts only if it leaves less time
                    self._known.add((row["host"], found))
                    continue
                try:
                    drain_nodes(self._head.dashboard, self._name, [row["nodeId"]], deadline, "its node %s: %s" % (place, why))
                    self._deadlines[row["nodeId"]] = deadline
                except Unreachable as error:
                    self._log("draining %s: %s" % (row["name"], error))
                    self._not_before = time.monotonic() + PAUSE
                    return
                except Refused as error:  # a keeper before this one has asked for it
                    self._log("draining %s: %s" % (row["name"], error))
                    self._known.add((row["host"], found))
                    continue
            self._known.add((row["host"], found))
            self._state.note(Event.NODE, to, row["name"], message)
