"""The allocations of nodes that Ray's autoscaler asked for, in the state document."""

from rayctl_keeper.node.groups.members import allocation_id
from rayctl_keeper.run.allocations.former import folded
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.model import AllocationState, NodeState, Purpose


class NodeAllocations:
    """Each is of one node, also where a batch system granted several that were asked for at once: it comes and goes by itself."""

    def __init__(self, state):
        self._state = state

    def last_serial(self):
        """The highest number of a node, also of earlier attempts."""
        return max([0] + [int(a["id"].rpartition(".")[2]) for a in self._all() if a["purpose"] == Purpose.ELASTIC])

    def _all(self):
        return self._state.doc["allocations"]

    def add(self, member, state, message, expected):
        """A node was asked for."""
        self._state.change(**folded(self._state.doc, self._all() + [{
            "id": allocation_id(member), "purpose": Purpose.ELASTIC, "groups": {member.group["name"]: 1}, "state": state, "queued": wall(),
            "granted": wall() if state == AllocationState.GRANTED else None, "released": None, "message": message, "expected": expected}]))

    def stand(self, standing):
        """Takes over (state, message, expected) by id; None: as it was."""
        changed = [stands(a, *(standing.get(a["id"]) or (a["state"], a["message"], None))) if a["purpose"] == Purpose.ELASTIC else a for a in self._all()]
        if changed != self._all():
            self._state.change(allocations=changed)

    def release(self, message, member=None):
        """That of a node has ended; None: all have."""
        self._state.change(allocations=[dict(a, state=AllocationState.RELEASED, released=wall(), message=message, expected=None)
                                        if a["purpose"] == Purpose.ELASTIC and not a["released"] and (member is None or a["id"] == allocation_id(member)) else a
                                        for a in self._all()])


def stands(allocation, state, message, expected):
    """The allocation with what became of it. What was granted does not wait again: see joined."""
    if allocation["released"] or allocation["granted"] and state == AllocationState.QUEUED:
        return allocation
    granted = allocation["granted"] or (wall() if state == AllocationState.GRANTED else None)
    return dict(allocation, state=state, granted=granted, message=message, expected=expected)


def joined(allocations, nodes):
    """The allocations, of which those whose node is alive in Ray are granted: Ray's list may show a node before the batch system's queue is read again."""
    alive = {n["allocation"] for n in nodes if n["state"] == NodeState.ALIVE}
    return [dict(a, state=AllocationState.GRANTED, granted=wall(), expected=None, message=a["message"].partition(":")[0])  # behind it is why the job waited
            if a["purpose"] == Purpose.ELASTIC and a["state"] == AllocationState.QUEUED and a["id"] in alive else a for a in allocations]
