"""The keeper's side: the nodes that Ray's autoscaler asked for."""

import time

from rayctl_keeper.node.groups import autoscaling
from rayctl_keeper.node.groups.members import Member, allocation_id, instance, is_elastic, most
from rayctl_keeper.run.allocations.nodeallocations import NodeAllocations
from rayctl_keeper.run.elastic.pace import Pace
from rayctl_keeper.run.elastic.sizes import REFUSAL_AT_THE_END, Refusal, Sizes
from rayctl_keeper.run.elastic.told import Told
from rayctl_keeper.state.exits import duration
from rayctl_keeper.state.model import AllocationState, Event, NodeState

LOST = "Ray has lost it"
TOO_MANY = "group %s needs %d more nodes, but the cluster already has the %d that scaling.maxAllocations allows"


class Elastic:
    """Starts and ends nodes above the required ones. Only the main thread uses it, except instances()."""

    def __init__(self, orders, run_dir, nodes, gang, state, log):
        self._orders, self._run_dir, self._nodes, self._gang = orders, run_dir, nodes, gang
        self._state, self._log = state, log
        self.active = is_elastic(orders)
        self._sizes = Sizes(orders, run_dir, nodes, state)
        self._allocations = NodeAllocations(state)
        self._serial = self._allocations.last_serial()
        self._pace = Pace(orders, nodes, gang, self._sizes)
        self._listed = set()  # lives of nodes that Ray's autoscaler knows
        self._brief = []  # nodes that ended before it did
        self._standing = {}  # of the nodes that were asked for, when it was last looked at
        self._told = Told(state)
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

    def room(self):
        """How many nodes of a type may be asked for now, where that is limited."""
        return self._pace.now() if self.active else {}

    def change(self, body):
        """POST /v1/nodes. A refusal is left in the body."""
        try:
            if self.closed or not self.active:
                raise Refusal(REFUSAL_AT_THE_END if self.closed else "the cluster has no elastic groups")
            if body.get("launch"):
                self._launch(**body["launch"])
            for name in body.get("release") or []:
                self._release(name)
            if body.get("held") is not None:
                self._hold(body["held"])
        except Refusal as refusal:
            body["refusal"] = str(refusal)

    def _launch(self, type, count, request):
        required = type.endswith(autoscaling.REQUIRED)
        name = type[:-len(autoscaling.REQUIRED)] if required else type
        group = next((g for g in self._orders["groups"] if g["name"] == name), None)
        if group is None:
            raise Refusal("there is no group %s" % name)
        members = self._nodes.all()  # a request is no reason to do nothing: Ray has one number for all types and batches of five, and for its repetition
        if name in self._sizes.hopeless:
            raise Refusal("group %s gets no more nodes: %s" % (name, self._sizes.hopeless[name]))
        left = self._pace.pause(name)
        if left:
            raise Refusal("the last node of group %s failed to start: the next try is in %s" % (name, duration(max(1, left))))
        if required:
            places = [m.ordinal for m in members if m.group is group and not m.head and not m.beyond and m.name in self._gang.dead]
        else:
            taken = {m.ordinal for m in members if m.group is group}
            places = [i for i in range(group["count"], most(group)) if i not in taken][:max(0, self._sizes.limits[name][1] - len(taken))]
        if not places:
            raise Refusal("group %s has all of its %d nodes" % (name, group["count"] if required else self._sizes.limits[name][1]))
        places = places[:self._pace.at_once(name)]
        if not places:
            raise Refusal("group %s has as many nodes on their way as scaling.upscalingSpeed allows" % name)
        room = self._pace.room(count)
        try:
            for ordinal in places[:min(count, room)]:
                self._start(Member(group, ordinal, beyond=not required), request)
        finally:
            self._nodes.started()
        if room < min(count, len(places)):
            text = TOO_MANY % (name, min(count, len(places)) - room, self._pace.most)
            self._told.tell(name, "MaxAllocations", text)
            raise Refusal(text)
        self._told.served(name)
        if len(places) < count:  # else Ray waits ten minutes for the others
            raise Refusal("group %s gets only %d more nodes now" % (name, len(places)))

    def _release(self, wanted):
        for member in list(self._nodes.extra.values()):
            if life(member, self._nodes.round, self._nodes.report(member)) == wanted:
                row = self._gang.row(member.name)
                lost = row.get("state") == NodeState.DEAD and not member.drain and row.get("nodeId") not in member.before
                self._log("node %s is released by Ray's autoscaler" % member.name)
                self._nodes.remove(member)
                if lost:  # Ray has seen its end before us
                    member.died, member.message = True, member.message or row.get("message") or LOST

    def _hold(self, held):
        """Ray's autoscaler would ask for so many more nodes of these types if it might."""
        for name in self._sizes.limits:
            count = held.get(name, 0) + held.get(name + autoscaling.REQUIRED, 0)
            if count and not self._pace.room(1):
                self._told.tell(name, "MaxAllocations", TOO_MANY % (name, count, self._pace.most))
            elif not count and name not in self._sizes.hopeless:
                self._told.served(name)

    # For users.

    def offers(self, body):
        """POST /v1/offers: a client reports what it has submitted, and takes what is to be submitted next, which is left in the body."""
        companions, body["offer"] = self._nodes.companions, None
        if companions and body.get("id"):
            companions.offer_taken(body["id"], body.get("job") or "", body.get("error") or "")
        if companions and body.get("take") and not self.closed:
            body["offer"] = companions.take_offer()

    def scale(self, body):
        """POST /v1/scale: how many nodes of groups there are at least and at most, until the next request. A refusal, then of all of it, is left in the body."""
        try:
            if self.closed:
                raise Refusal(REFUSAL_AT_THE_END)
            self._sizes.scale(body["sizes"])
        except (Refusal, OSError) as refusal:
            body["refusal"] = str(refusal)

    def resized(self, groups, scaling):
        """Of a changed cluster file: what carries it out, or Refusal. groups are (least, most, at the start) by name, scaling is the orders' for the autoscaler."""
        changed = self._sizes.changed(groups)

        def resize():
            for name, count in self._sizes.resize(changed, scaling or {}):
                if self._gang.complete:
                    self._begin(name, count)
        return resize

    # For the keeper.

    def first(self):
        """Nodes of elastic groups that the orders want at the start: they go when nothing needs them."""
        for name, initial in self._sizes.initial().items() if self.active else ():
            self._begin(name, initial)

    def _begin(self, name, count):
        """Starts nodes of a group until it has so many."""
        group = next(g for g in self._orders["groups"] if g["name"] == name)
        try:
            for ordinal in range(group["count"], min(most(group), count)):
                member = Member(group, ordinal, beyond=True)
                if member.name not in self._nodes.extra and self._pace.room(1):
                    self._start(member, "")
        except Refusal as refusal:
            self._log(str(refusal))
        self._nodes.started()

    def _start(self, member, request):
        self._serial += 1
        member.serial, member.request, member.before = self._serial, request, frozenset(self._gang.seen.get(member.name, ()))
        dead = self._gang.dead.pop(member.name, None)
        self._log("node %s is requested by Ray's autoscaler" % member.name if request else "node %s is requested at the start" % member.name)
        try:
            self._nodes.add(member)
        except OSError as error:  # no process, no disk: the cluster goes on without this node
            self._nodes.extra.pop(member.name, None)
            if dead is not None:
                self._gang.dead[member.name] = dead
            self._pace.started(member.group["name"], False)
            raise Refusal("node %s cannot be started: %s" % (member.name, error))
        self._allocations.add(member, *(self._nodes.standing(member) or (AllocationState.QUEUED, "", None)))

    def look(self):
        """Takes over what became of nodes that are queued."""
        self._show_offers(self._nodes.companions.offered() if self._nodes.companions else 0)
        if not self.active:
            return
        try:
            self._sizes.learn(self._gang.found)
        except OSError as error:  # with the next size or node
            self._log("the resources of the nodes cannot be written for Ray's autoscaler: %s" % error)
        for member in [m for m in self._nodes.extra.values() if not m.released]:
            self._drain(member)
        standing = {allocation_id(m): self._nodes.standing(m) for m in self._nodes.all() if m.serial}
        if standing == self._standing:  # as nearly always: it is asked at each wake
            return
        self._standing = standing
        self._allocations.stand(standing)

    def _show_offers(self, count):
        """Clients that watch take them, by this number."""
        if count != self._state.doc["offers"]:
            self._state.change(offers=count)
        if count:
            self._told.tell("offers", "NodesMayNotSubmit", "compute nodes may not submit jobs: more nodes come while `rayctl run`, `up` or `submit` watches this cluster")

    def _drain(self, member):
        """A node that ends before its cluster: Ray drains it (rayhook/provider.py), and asks for another one where it is needed."""
        found = None if member.drain else self._nodes.drain(member)
        if found:
            member.drain, member.drained = found
            self._log("node %s must be empty in %ds: %s" % (member.name, member.drain - time.time(), member.drained))
        if member.drain and (time.time() >= member.drain or self._gang.row(member.name).get("state") in (NodeState.DEAD, NodeState.ENDED)):
            self._log("node %s is drained" % member.name)
            self._nodes.remove(member)

    def ended(self, name, code):
        """A node's supervisor has ended. Returns whether it is one beyond the required ones."""
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
        if member.released and not member.died and not member.drain and row.get("state") == NodeState.DEAD:  # lost while Ray's autoscaler released it
            member.died, member.message = True, row.get("message") or LOST
        fine = member.beyond and (member.released and not member.died or bool(member.drain) or row.get("state") == NodeState.ENDED)
        message = member.message or self._gang.why(member, code)
        if fine:
            message = member.drained or "nothing needed it any more"
        self._pace.started(member.group["name"], fine or row.get("state") == NodeState.ALIVE)
        if member.beyond and not fine:
            self._state.note(Event.NODE, NodeState.DEAD, name, message)
        self._allocations.release(message, member)
        if member.hopeless:
            self._sizes.hopeless[member.group["name"]] = message
            self._told.tell(member.group["name"], "Hopeless", "group %s gets no more nodes: %s" % (member.group["name"], message))
        if self._sizes.limits[member.group["name"]][1] < most(member.group) or member.group["name"] in self._sizes.hopeless:
            self._sizes.write()
        return member.beyond

    def forget(self):
        """All nodes are going to end."""
        if self.active:
            self._allocations.release("it ended with its cluster")
        if self._state.doc["offers"]:
            self._state.change(offers=0)
        self._told.forget()
        if self._sizes.hopeless:  # the next attempt tries again
            self._sizes.hopeless.clear()
            self._sizes.write()


def life(member, round, report):
    """Ray's id for the present life of a node."""
    return instance(member.name, round, member.serial, report.get("try") or 0)
