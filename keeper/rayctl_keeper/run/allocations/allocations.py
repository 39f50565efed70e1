"""The cluster's allocations in the state document: what was asked of the substrate, when it was there, and which nodes it holds."""

import time

from rayctl_keeper.state.document import seconds_of, wall
from rayctl_keeper.state.model import AllocationState, Event, NodeState, Phase, Purpose



class Allocations:
    """Reads and writes them. Everything is for the main thread."""

    def __init__(self, state):
        self._state = state

    def add(self, purpose, groups, granted=None, where="", **more):
        """One more of a purpose, which no open one has: queued, or granted at that moment. Returns its id."""
        before = self._state.doc["allocations"]
        found = {"id": "%s.%d" % (purpose, self.next(purpose)), "purpose": purpose, "groups": groups,
                 "state": AllocationState.GRANTED if granted else AllocationState.QUEUED, "queued": wall(), "granted": granted, "released": None,
                 "where": where, "message": ""}
        found.update(more)
        self._state.change(allocations=before + [found])
        return found["id"]

    def next(self, purpose):
        """The number of the next one of a purpose."""
        return 1 + sum(a["purpose"] == purpose for a in self._state.doc["allocations"])

    def change(self, purpose, change):
        """Replaces those of a purpose that are not released by change(allocation)."""
        self._state.change(allocations=[change(a) if a["purpose"] == purpose and not a["released"] else a for a in self._state.doc["allocations"]])

    def release(self, purpose, message):
        """Those of a purpose are given back, for this reason."""
        self.change(purpose, lambda a: dict(a, state=AllocationState.RELEASED, released=wall(), message=message))

    def open(self):
        """The ids of those that are not released, by purpose; of elastic nodes one."""
        return {a["purpose"]: a["id"] for a in self._state.doc["allocations"] if not a["released"]}


class Main:
    """The allocation of all required nodes, the head among them; with an early head that has its own there is none (run/gang/early.py)."""

    def __init__(self, orders, nodes, allocations, state):
        self._groups = {g["name"]: g["count"] for g in orders["groups"] if g["count"]}
        self._spent = float((orders.get("lifetime") or {}).get("spent") or 0)
        self._nodes, self._allocations, self._state = nodes, allocations, state
        self.active = not nodes.head_apart

    def queued(self, message=""):
        """It is asked for."""
        if self.active and Purpose.MAIN not in self._allocations.open():
            self._allocations.add(Purpose.MAIN, self._groups, message=message)

    def granted(self):
        """The nodes are ours."""
        if not self.active:
            return
        where, since = self._nodes.granted_as()
        if Purpose.MAIN in self._allocations.open():
            self._allocations.change(Purpose.MAIN, lambda a: a if a["granted"] else dict(a, state=AllocationState.GRANTED, granted=wall(), where=where, message=""))
            return
        asked = self._asked()
        since = wall(min(time.time(), max(since or time.time(), asked)))
        self._allocations.add(Purpose.MAIN, self._groups, since, where, queued=wall(min(asked, seconds_of(since))))

    def _asked(self):
        """When it was asked for, in epoch seconds: before this keeper began."""
        for event in reversed(self._state.doc["timeline"]):
            if event["event"] == Event.PHASE and event.get("to") == Phase.QUEUED:
                return seconds_of(event["at"])
        return time.time() - self._spent

    def released(self, message):
        """They are given back."""
        if self.active:
            self._allocations.release(Purpose.MAIN, message)


def held(found, doc):
    """Nodes with the allocation that holds each, and the times between which it was alive in Ray: Ray's own where its row has them, else when that was first seen.
    found are (node, Ray's row, whether it is the head, the id of its own allocation if it has one). Pure but for the clock."""
    ids = {a["id"]: a["released"] for a in doc["allocations"]}
    shared = {a["purpose"]: a["id"] for a in doc["allocations"] if not a["released"]}
    before = {n["nodeId"]: n for n in doc["nodes"] if n["nodeId"]}
    nodes = []
    for node, row, head, own in found:
        known, alive = before.get(node["nodeId"]) or {}, node["state"] == NodeState.ALIVE
        if own in ids and not (alive and ids[own]):
            holder = own
        else:  # one that had its own may take the place of a required one (run/elastic/joined.py)
            holder = "" if own in ids else known.get("allocation")
            holder = holder or shared.get(Purpose.MAIN) or shared.get(Purpose.HEAD if head else Purpose.GANG) or ""
        joined = known.get("joined") or (_moment(row.get("start_time_ms")) if alive else None)
        left = known.get("left") or (_moment(row.get("end_time_ms")) if joined and node["state"] in (NodeState.DEAD, NodeState.ENDED) else None)
        nodes.append(dict(node, allocation=holder, joined=joined, left=left))
    return nodes


def _moment(milliseconds):
    """The time that Ray reports, or now."""
    return wall(milliseconds / 1000.0 if milliseconds else None)
