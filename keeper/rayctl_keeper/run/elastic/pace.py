"""How many nodes Ray's autoscaler may ask for at present."""

import sys
import time

from rayctl_keeper.node.groups import autoscaling
from rayctl_keeper.node.groups.members import most
from rayctl_keeper.state.model import NodeState

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds after nodes of a group that failed to start, twice as long each time


class Pace:
    """The limits of a moment: the pause after a failed start, scaling.upscalingSpeed and scaling.maxAllocations. Only the main thread uses it, except now()."""

    def __init__(self, orders, nodes, gang, sizes):
        self._groups, self._nodes, self._gang, self._sizes = orders["groups"], nodes, gang, sizes
        self.most = (orders.get("scaling") or {}).get("maxAllocations") or None
        self._failures, self._not_before = {}, {}  # by group

    def started(self, group, well):
        """A node has: after one that failed the next one has to wait."""
        if well:
            self._failures.pop(group, None)
            return
        self._failures[group] = self._failures.get(group, 0) + 1
        self._not_before[group] = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failures[group] - 1))

    def pause(self, group):
        """Seconds until the next try."""
        return max(0.0, self._not_before.get(group, 0) - time.monotonic())

    def room(self, count=sys.maxsize):
        """How many of so many nodes scaling.maxAllocations allows."""
        return count if self.most is None else max(0, min(count, self.most - sum(1 for m in self._nodes.all() if m.serial)))

    def at_once(self, group):
        """How many more nodes of a group may be on their way. Ray counts no nodes that are: it asks for as many again at each look (Ray 2.60,
        autoscaler/v2/instance_manager/reconciler.py, _compute_to_launch), although its documentation of upscaling_speed does (docs.ray.io, "Cluster YAML")."""
        alive = coming = 0
        for member in self._nodes.all():
            if member.group["name"] == group and not member.released:
                row = self._gang.row(member.name)
                lives = row.get("state") == NodeState.ALIVE and row.get("nodeId") not in member.before
                alive, coming = alive + lives, coming + (not lives and bool(member.serial))
        return max(0, self._sizes.at_once(alive) - coming)

    def now(self):
        """For Ray's autoscaler, which keeps the others queued (rayhook/provider.py): how many nodes of a type it may ask for, where that is limited."""
        limits, room = {}, self.room()
        for group in self._groups:
            if most(group) > group["count"]:
                name = group["name"]
                limit = 0 if self.pause(name) else min(room, self.at_once(name))
                if limit < most(group):
                    limits.update({name: limit, name + autoscaling.REQUIRED: limit})
        return limits
