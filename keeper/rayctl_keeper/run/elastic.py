"""The keeper's side: the nodes that Ray's autoscaler asked for."""

import collections
import time

from rayctl_keeper.node import autoscaling
from rayctl_keeper.node.members import Member, instance, is_elastic, most
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.exits import duration

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds after nodes of a group that failed to start, twice as long each time
SHOWN = 200  # allocations in the state document
REFUSAL_AT_THE_END = "the cluster ends"
MOST_TOLD = 50  # notes about demand that gets no nodes


class Refusal(Exception):
    """Nodes are not started, for this reason."""


class Elastic:
    """Starts and ends nodes beyond those that must be there. Everything but instances() is for the main thread."""

    def __init__(self, orders, run_dir, nodes, gang, state, log):
        self._orders, self._run_dir, self._nodes, self._gang = orders, run_dir, nodes, gang
        self._state, self._log = state, log
        self.active = is_elastic(orders)
        self._limits = autoscaling.limits_of(orders)
        self._scaling = dict(orders.get("scaling") or {})
        self._accepted = {g["name"]: (*self._limits[g["name"]], g.get("initial") or 0) for g in orders["groups"]}  # of the cluster file
        self._serial = max([0] + [int(a["id"].rpartition(".")[2]) for a in state.doc["allocations"]])  # those of earlier attempts
        self._failures, self._not_before = {}, {}  # by group
        self._listed = set()  # lives of nodes that Ray's autoscaler knows
        self._brief = []  # nodes that ended before it did
        self._standing = {}  # of the nodes that were asked for, when it was last looked at
        self._most = (orders.get("scaling") or {}).get("maxAllocations") or None
        self._hopeless = {}  # why there never will be more nodes of a group
        self._told = {}  # by group, the last note about it: Ray asks again and again
        self.closed = False  # the cluster ends

    # For Ray's autoscaler, through the API.

    def instances(self, asked=False):
        """The nodes that there are, or that are on their way. asked: it is Ray's autoscaler that gets the list. It waits ten minutes for a node that never was
        in one (RAY_AUTOSCALER_RECONCILE_REQUEST_STATUS_TIMEOUT_S), so nodes that ended soon are in one list."""
        found = [self._instance(m) for m in self._nodes.all() if m.name not in self._gang.dead]
        if asked:
            found += [self._brief.pop(0) for _ in range(len(self._brief))]
            self._listed.update(n["id"] for n in found)
        return found

    def _instance(self, member):
        report = self._nodes.report(member)
        return {"id": life(member, self._nodes.round, report), "type": autoscaling.node_type(member), "group": member.group["name"], "head": member.head,
                "request": member.request, "running": bool(report.get("directory")), "address": self._nodes.address(member),
                "drain": self._gang.row(member.name).get("nodeId") and member.drain or None, "nodeId": self._gang.row(member.name).get("nodeId", "")}

    def change(self, body):
        """POST /v1/nodes. A refusal is left in the body."""
        try:
            if self.closed or not self.active:
                raise Refusal(REFUSAL_AT_THE_END if self.closed else "the cluster has no elastic groups")
            if body.get("launch"):
                self._launch(**body["launch"])
            for name in body.get("release") or []:
                self._release(name)
            for text in body.get("unmet") or []:
                self._tell(text, "Unmet", text)
        except Refusal as refusal:
            body["refusal"] = str(refusal)

    def _launch(self, type, count, request):
        required = type.endswith(autoscaling.REQUIRED)
        name = type[:-len(autoscaling.REQUIRED)] if required else type
        group = next((g for g in self._orders["groups"] if g["name"] == name), None)
        if group is None:
            raise Refusal("there is no group %s" % name)
        members = self._nodes.all()  # a request is no reason to do nothing: Ray has one number for all types and batches of five, and for its repetition
        if name in self._hopeless:
            raise Refusal("group %s gets no more nodes: %s" % (name, self._hopeless[name]))
        left = self._not_before.get(name, 0) - time.monotonic()
        if left > 0:
            raise Refusal("the last node of group %s failed to start: the next try is in %s" % (name, duration(max(1, left))))
        if required:
            places = [m.ordinal for m in members if m.group is group and not m.head and not m.beyond and m.name in self._gang.dead]
        else:
            taken = {m.ordinal for m in members if m.group is group}
            places = [i for i in range(group["count"], most(group)) if i not in taken][:max(0, self._limits[name][1] - len(taken))]
        if not places:
            raise Refusal("group %s has all of its %d nodes" % (name, group["count"] if required else self._limits[name][1]))
        room = self._room(count)
        for ordinal in places[:min(count, room)]:
            self._start(Member(group, ordinal, beyond=not required), request)
        if room < min(count, len(places)):
            text = "group %s is to have %d more nodes, and the %d that scaling.maxAllocations allows are there" % (
                name, min(count, len(places)) - room, self._most)
            self._tell(name, "MaxAllocations", text)
            raise Refusal(text)
        self._told.pop(name, None)
        if len(places) < count:  # else Ray waits ten minutes for the others
            raise Refusal("group %s has only %d more nodes" % (name, len(places)))

    def _room(self, count):
        """How many of so many nodes may be asked for."""
        return count if self._most is None else max(0, min(count, self._most - sum(1 for m in self._nodes.all() if m.serial)))

    def _tell(self, about, code, text):
        """A note, once: Ray repeats what it asks for every two seconds."""
        if self._told.get(about) != text and len(self._told) < MOST_TOLD:
            self._told[about] = text
            self._state.note("scaling", "Refused", code, text)

    def _release(self, wanted):
        for member in list(self._nodes.extra.values()):
            if life(member, self._nodes.round, self._nodes.report(member)) == wanted:
                row = self._gang.row(member.name)
                lost = row.get("state") == "DEAD" and not member.drain and row.get("nodeId") not in member.before
                self._log("node %s is given up by Ray's autoscaler" % member.name)
                self._nodes.remove(member)
                if lost:  # Ray has seen its end before us
                    member.died, member.message = True, member.message or row.get("message") or "Ray has lost it"

    # For users.

    def scale(self, body):
        """POST /v1/scale: how many nodes of a group there are at least and at most, until it is said again. A refusal is left in the body."""
        group = next((g for g in self._orders["groups"] if g["name"] == body["group"]), None)
        try:
            if group is None:
                raise Refusal("there is no group %s; there is %s" % (body["group"], ", ".join(g["name"] for g in self._orders["groups"])))
            if self.closed:
                raise Refusal(REFUSAL_AT_THE_END)
            least, largest = body["min"], self._limits[group["name"]][1] if body.get("max") is None else body["max"]
            self._possible(group, least, largest)
            self._hopeless.pop(group["name"], None)
            self._write(dict(self._limits, **{group["name"]: (least, largest)}), self._scaling)
        except (Refusal, OSError) as refusal:
            body["refusal"] = str(refusal)
            return
        self._show(group["name"], "scale")

    @staticmethod
    def _possible(group, least, largest):
        """Raises Refusal where a group cannot have so many nodes."""
        if most(group) == group["count"]:
            raise Refusal("group %s is not elastic: it was launched without a larger maxReplicas" % group["name"])
        if not group["count"] <= least <= most(group):
            raise Refusal("group %s can have %d to %d nodes, and not %d" % (group["name"], group["count"], most(group), least))
        if not least <= largest <= most(group):
            raise Refusal("group %s can have at most %d to %d nodes, and not %d" % (group["name"], least, most(group), largest))

    def _show(self, name, event):
        least, largest = self._limits[name]
        self._state.note(event, name, "", "%d to %d nodes" % (least, largest))
        self._state.change(groups=[dict(g, min=least, max=largest) if g["name"] == name else g for g in self._state.doc["groups"]])

    def resized(self, groups, scaling):
        """Of a changed cluster file: what carries it out, or Refusal. groups are (least, most, at the start) by name, scaling is the orders' for the autoscaler."""
        changed = {name: tuple(sizes) for name, sizes in groups.items() if tuple(sizes) != self._accepted.get(name, (0, 0, 0))}
        for name, (least, largest, _) in changed.items():
            if name not in self._accepted:
                raise Refusal("group %s has no nodes in the cluster: it was launched with a maxReplicas of 0" % name)
            self._possible(next(g for g in self._orders["groups"] if g["name"] == name), least, largest)
        return lambda: self._resize(changed, scaling or {})

    def _resize(self, changed, scaling):
        before = self._scaling
        for name in changed:
            self._hopeless.pop(name, None)
        if self.active:
            self._write(dict(self._limits, **{name: sizes[:2] for name, sizes in changed.items()}), scaling or before)
        for name, sizes in changed.items():
            grows, self._accepted[name] = sizes[2] > self._accepted[name][2], sizes
            self._show(name, "change")
            if grows and self._gang.complete:
                self._begin(name, sizes[2])
        if self._scaling != before:
            self._state.note("change", "scaling", "", "idle nodes go after %s" % duration(autoscaling.idle({"scaling": self._scaling})))

    def _write(self, limits, scaling):
        """Ray would end nodes beyond the most at once, with what runs on them: they go when nothing uses them. Of a group that gets no more nodes it has what
        is there, so that it says itself that demand for more cannot be satisfied. Raises OSError."""
        there, written = collections.Counter(m.group["name"] for m in self._nodes.all()), {}
        for group in self._orders["groups"]:
            name, (least, largest) = group["name"], limits[group["name"]]
            has = max(group["count"], there[name])
            written[name] = (min(least, has), has) if name in self._hopeless else (least, max(largest, there[name]))
        autoscaling.write(dict(self._orders, scaling=scaling), self._run_dir, written)
        self._limits, self._scaling = limits, scaling

    # For the keeper.

    def first(self):
        """Nodes of elastic groups that the orders want at the start: they go when nothing needs them."""
        for name, (_, _, initial) in self._accepted.items() if self.active else ():
            self._begin(name, initial)

    def _begin(self, name, count):
        """Starts nodes of a group until it has so many."""
        group = next(g for g in self._orders["groups"] if g["name"] == name)
        try:
            for ordinal in range(group["count"], min(most(group), count)):
                member = Member(group, ordinal, beyond=True)
                if member.name not in self._nodes.extra and self._room(1):
                    self._start(member, "")
        except Refusal as refusal:
            self._log(str(refusal))

    def _start(self, member, request):
        self._serial += 1
        member.serial, member.request, member.before = self._serial, request, frozenset(self._gang.seen.get(member.name, ()))
        dead = self._gang.dead.pop(member.name, None)
        self._log("node %s is wanted by Ray's autoscaler" % member.name if request else "node %s is wanted at the start" % member.name)
        try:
            self._nodes.add(member)
        except OSError as error:  # no process, no disk: the cluster goes on without this node
            self._nodes.extra.pop(member.name, None)
            if dead is not None:
                self._gang.dead[member.name] = dead
            self._pace(member.group["name"], False)
            raise Refusal("node %s cannot be started: %s" % (member.name, error))
        state, message, expected = self._nodes.standing(member) or ("queued", "", None)
        self._allocate({"id": "%s.%d" % (member.name, member.serial), "purpose": "elastic", "groups": {member.group["name"]: 1}, "state": state,
                        "queued": wall(), "granted": wall() if state == "granted" else None, "released": None, "message": message, "expected": expected})

    def look(self):
        """Takes over what became of nodes that are queued."""
        if not self.active:
            return
        for member in [m for m in self._nodes.extra.values() if not m.released]:
            self._drain(member)
        standing = {"%s.%d" % (m.name, m.serial): self._nodes.standing(m) for m in self._nodes.all() if m.serial}
        if standing == self._standing:  # as nearly always: it is asked at each wake
            return
        self._standing = standing
        changed = [self._stands(a, *(standing.get(a["id"]) or (a["state"], a["message"], None))) for a in self._state.doc["allocations"]]
        if changed != self._state.doc["allocations"]:
            self._state.change(allocations=changed)

    def _drain(self, member):
        """A node that ends before its cluster: Ray drains it (rayhook/provider.py), and asks for another one where it is needed."""
        found = None if member.drain else self._nodes.drain(member)
        if found:
            member.drain, member.drained = found
            self._log("node %s is to be empty in %ds: %s" % (member.name, member.drain - time.time(), member.drained))
        if member.drain and (time.time() >= member.drain or self._gang.row(member.name).get("state") in ("DEAD", "ENDED")):
            self._log("node %s is drained" % member.name)
            self._nodes.remove(member)

    def _stands(self, allocation, state, message, expected):
        if allocation["released"]:
            return allocation
        granted = allocation["granted"] or (wall() if state == "granted" else None)
        return dict(allocation, state=state, granted=granted, message=message, expected=expected)

    def ended(self, name, code):
        """A node's supervisor has ended. Returns whether it is one beyond those that must be there."""
        member = next((m for m in self._nodes.all() if m.name == name and m.serial), None)
        if member is None:
            return False
        listed = self._instance(member)
        if member.beyond:
            del self._nodes.extra[name]
        if listed["id"] not in self._listed:
            self._brief.append(listed)
        row = self._gang.row(name)
        if row.get("nodeId") in member.before:  # not looked at since the node before it
            row = {}
        fine = member.beyond and (member.released and not member.died or bool(member.drain) or row.get("state") == "ENDED")
        message = member.message or self._gang.why(member, code)
        if fine:
            message = member.drained or "nothing needed it any more"
        self._pace(member.group["name"], fine or row.get("state") == "ALIVE")
        if member.beyond and not fine:
            self._state.note("node", "DEAD", name, message)
        self._released(lambda a: a["id"] == "%s.%d" % (name, member.serial), message)
        if member.hopeless:
            self._hopeless[member.group["name"]] = message
            self._tell(member.group["name"], "Hopeless", "group %s gets no more nodes: %s" % (member.group["name"], message))
        if self._limits[member.group["name"]][1] < most(member.group) or member.group["name"] in self._hopeless:
            self._write(self._limits, self._scaling)
        return member.beyond

    def _pace(self, group, started):
        """After a node that failed to start the next one has to wait."""
        if started:
            self._failures.pop(group, None)
            return
        self._failures[group] = self._failures.get(group, 0) + 1
        self._not_before[group] = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failures[group] - 1))

    def forget(self):
        """All nodes are going to end."""
        self._released(lambda a: True, "it ended with its cluster")
        self._told.clear()
        if self._hopeless:  # the next attempt tries again
            self._hopeless.clear()
            self._write(self._limits, self._scaling)

    # The state document.

    def _allocate(self, allocation):
        self._state.change(allocations=recent(self._state.doc["allocations"]) + [allocation])

    def _released(self, which, message):
        if self.active:
            self._state.change(allocations=[dict(a, state="released", released=wall(), message=message, expected=None) if which(a) and not a["released"] else a
                                            for a in self._state.doc["allocations"]])


def recent(allocations):
    """Without those that ended before the last ones."""
    ended = [a for a in allocations if a["released"]]
    dropped = {a["id"] for a in ended[:max(0, len(ended) - SHOWN)]}
    return [a for a in allocations if a["id"] not in dropped]


def life(member, round, report):
    """Ray's id for the present life of a node."""
    return instance(member.name, round, member.serial, report.get("try") or 0)
