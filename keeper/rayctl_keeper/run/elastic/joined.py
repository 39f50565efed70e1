"""Nodes of elastic groups that KubeRay's autoscaler starts and ends: which of them are above the required number, by Ray's list of nodes."""

from rayctl_keeper.node.groups.members import joined_allocation, most
from rayctl_keeper.run.allocations.allocations import Allocations
from rayctl_keeper.run.allocations.former import folded, is_former
from rayctl_keeper.run.elastic.sizes import REFUSAL_AT_THE_END
from rayctl_keeper.run.gang.gang import drained
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.model import AllocationState, NodeState, Purpose


class Joined:
    """What Elastic is where the keeper starts the nodes. Everything is for the main thread."""

    def __init__(self, orders, gang, state):
        self._gang, self._state = gang, state
        self._required = {g["name"]: g["count"] for g in orders["groups"] if most(g) > g["count"]}
        self._looked_at = None  # the list of nodes, as it was last looked at
        self.closed = False  # the cluster ends

    def instances(self, asked=False):
        """For an autoscaler of our own: there is none."""
        return []

    def room(self):
        """As above."""
        return {}

    def change(self, body):
        """POST /v1/nodes: an autoscaler of ours would ask for nodes."""
        self.scale(body)

    def offers(self, body):
        """There is nothing that a client would have to submit."""
        body["offer"] = None

    def scale(self, body):
        """A refusal is left in the body."""
        body["refusal"] = REFUSAL_AT_THE_END if self.closed else "its pods are not the keeper's: `rayctl scale` changes its RayCluster"

    def first(self):
        """They start without us."""

    def ended(self, _name, _code):
        """None is our child."""
        return False

    def look(self):
        """Takes over which nodes there are now, and which there were."""
        rows = self._gang.rows
        if self.closed or rows is self._looked_at:
            return
        self._looked_at = rows
        known = {a["id"]: a for a in self._state.doc["allocations"]}
        for group, count in self._required.items():
            for allocation in beyond(group, count, [row for name, row in rows if name == group]):
                before = known.get(allocation["id"])
                if not (before["released"] if before else is_former(allocation, self._state.doc["formerAllocations"])):
                    known[allocation["id"]] = allocation
        self._state.change(**folded(self._state.doc, list(known.values())))

    def forget(self):
        """All nodes are going to end."""
        Allocations(self._state).release(Purpose.ELASTIC, "it ended with its cluster")


def beyond(group, count, rows):
    """The allocations of a group's nodes while there were more than count, by Ray's rows of nodes with the times of their lives. Pure. Whichever node goes,
    the others count first as the required ones."""
    times = []
    for row in rows:
        start = row.get("start_time_ms") or 0
        times += [(start, row)] if start else []
        times += [(max(start, row.get("end_time_ms") or start), row)] if start and row["state"] == NodeState.DEAD else []
    required, more = [], {}
    for milliseconds, row in sorted(times, key=lambda moment: moment[0]):
        node, at, name = row["node_id"], wall(milliseconds / 1000.0), row.get("node_name") or ""
        if node in required:
            required.remove(node)
            heir = next((n for n, a in more.items() if not a["released"]), None)
            if heir:
                required.append(heir)
                more[heir].update(state=AllocationState.RELEASED, released=at, message="it replaced %s" % name)
        elif node in more:
            message = "nothing needed it any more" if drained(row) else row.get("state_message") or "it was lost"
            more[node].update(state=AllocationState.RELEASED, released=at, message=message)
        elif len(required) < count:
            required.append(node)
        else:
            more[node] = {"id": joined_allocation(name, node), "purpose": Purpose.ELASTIC, "groups": {group: 1}, "state": AllocationState.GRANTED,
                          "queued": at, "granted": at, "released": None, "message": ""}
    return list(more.values())
