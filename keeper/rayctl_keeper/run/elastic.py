"""The keeper's side: the nodes that Ray's autoscaler asked for."""

import time

from rayctl_keeper.node import autoscaling
from rayctl_keeper.node.members import Member, instance, is_elastic, most
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.exits import duration

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds after nodes of a group that failed to start, twice as long each time
SHOWN = 200  # allocations in the state document


class Refusal(Exception):
    """Nodes are not started, for this reason."""


class Elastic:
    """Starts and ends nodes beyond those that must be there. Everything but instances() is for the main thread."""

    def __init__(self, orders, nodes, gang, state, log):
        self._orders, self._nodes, self._gang = orders, nodes, gang
        self._state, self._log = state, log
        self.active = is_elastic(orders)
        self._serial = 0
        self._failures, self._not_before = {}, {}  # by group
        self.closed = False  # the cluster ends

    # For Ray's autoscaler, through the API.

    def instances(self):
        """The nodes that there are, or that are on their way."""
        found = []
        for member in self._nodes.all():
            report = self._nodes.report(member)
            if member.name in self._gang.dead or report.get("state") in ("ended", "failed"):
                continue
            found.append({"id": life(member, self._nodes.round, report), "type": autoscaling.node_type(member), "group": member.group["name"],
                          "head": member.head, "request": member.request, "running": bool(report.get("directory")),
                          "address": self._nodes.address(member)})
        return found

    def change(self, body):
        """POST /v1/nodes. A refusal is left in the body."""
        try:
            if self.closed or not self.active:
                raise Refusal("the cluster ends" if self.closed else "the cluster has no elastic groups")
            if body.get("launch"):
                self._launch(**body["launch"])
            for name in body.get("release") or []:
                self._release(name)
        except Refusal as refusal:
            body["refusal"] = str(refusal)

    def _launch(self, type, count, request):
        required = type.endswith(autoscaling.REQUIRED)
        name = type[:-len(autoscaling.REQUIRED)] if required else type
        group = next((g for g in self._orders["groups"] if g["name"] == name), None)
        if group is None:
            raise Refusal("there is no group %s" % name)
        members = self._nodes.all()
        if request and any(m.request == request for m in members):
            return  # the answer to this request was lost
        left = self._not_before.get(name, 0) - time.monotonic()
        if left > 0:
            raise Refusal("the last node of group %s failed to start: the next try is in %s" % (name, duration(max(1, left))))
        if required:
            places = [m.ordinal for m in members if m.group is group and not m.beyond and m.name in self._gang.dead]
        else:
            taken = {m.ordinal for m in members if m.group is group}
            places = [i for i in range(group["count"], most(group)) if i not in taken]
        if not places:
            raise Refusal("group %s has all of its %d nodes" % (name, group["count"] if required else most(group)))
        for ordinal in places[:count]:
            self._start(Member(group, ordinal, beyond=not required), request)

    def _release(self, wanted):
        for member in list(self._nodes.extra.values()):
            if life(member, self._nodes.round, self._nodes.report(member)) == wanted:
                self._log("node %s is given up by Ray's autoscaler" % member.name)
                self._nodes.remove(member)

    # For the keeper.

    def first(self):
        """Nodes of elastic groups that the orders want at the start: they go when nothing needs them."""
        if not self.active:
            return
        for group in self._orders["groups"]:
            for ordinal in range(group["count"], min(most(group), group.get("initial") or 0)):
                self._start(Member(group, ordinal, beyond=True), "")

    def _start(self, member, request):
        self._serial += 1
        member.serial, member.request = self._serial, request
        self._gang.dead.pop(member.name, None)
        self._log("node %s is wanted by Ray's autoscaler" % member.name if request else "node %s is wanted at the start" % member.name)
        self._nodes.add(member)
        self._allocate({"id": "%s.%d" % (member.name, member.serial), "purpose": "elastic", "groups": {member.group["name"]: 1}, "state": "granted",
                        "granted": wall(), "released": None})

    def ended(self, member, code):
        """A node's supervisor has ended."""
        report, row = self._nodes.report(member), self._gang.row(member.name)
        fine = member.released or report.get("state") == "ended" or row.get("state") == "ENDED"
        group, message = member.group["name"], report.get("message") or ("its supervisor ended with code %d" % code)
        if fine:
            message = "nothing needed it any more"
            self._failures.pop(group, None)
        elif row.get("state") != "ALIVE":
            self._failures[group] = self._failures.get(group, 0) + 1
            self._not_before[group] = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failures[group] - 1))
        if not fine:
            self._state.note("node", "DEAD", member.name, message)
        self._release_allocation(member, message)

    def forget(self):
        """All nodes have ended."""
        for member in self._nodes.extra.values():
            self._release_allocation(member, "it ended with its cluster")

    # The state document.

    def _allocate(self, allocation):
        ended = [a for a in self._state.doc["allocations"] if a["released"]]
        dropped = {a["id"] for a in ended[:max(0, len(ended) - SHOWN)]}
        self._state.change(allocations=[a for a in self._state.doc["allocations"] if a["id"] not in dropped] + [allocation])

    def _release_allocation(self, member, message):
        wanted = "%s.%d" % (member.name, member.serial)
        self._state.change(allocations=[dict(a, state="released", released=wall(), message=message) if a["id"] == wanted and not a["released"] else a
                                        for a in self._state.doc["allocations"]])


def life(member, round, report):
    """Ray's id for the present life of a node."""
    return instance(member.name, round, member.serial, report.get("try") or 0)
