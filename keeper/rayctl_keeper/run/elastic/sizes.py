"""The minimum and maximum number of nodes of each group, and the refusal of other numbers."""

import collections
import math
import sys

from rayctl_keeper.node.groups import autoscaling
from rayctl_keeper.node.groups.members import is_elastic, most
from rayctl_keeper.state.exits import duration

REFUSAL_AT_THE_END = "the cluster ends"


class Refusal(Exception):
    """The reason why a request is not carried out."""


class Sizes:
    """The present sizes, from the cluster file and `rayctl scale`, as Ray's autoscaler has them. Only the main thread uses this."""

    def __init__(self, orders, run_dir, nodes, state):
        self._orders, self._run_dir, self._nodes, self._state = orders, run_dir, nodes, state
        self.limits = autoscaling.limits_of(orders)
        self.hopeless = {}  # the reason why a group can never get more nodes
        self._scaling = dict(orders.get("scaling") or {})
        self._accepted = {g["name"]: (*self.limits[g["name"]], g.get("initial") or 0) for g in orders["groups"]}  # of the cluster file
        self._found = {}  # the resources that Ray has found on nodes, as the autoscaler has them

    def initial(self):
        """Nodes at the start, by group."""
        return {name: size[2] for name, size in self._accepted.items()}

    def at_once(self, alive):
        """How many nodes of a group with so many living ones may be on their way: scaling.upscalingSpeed, which a changed cluster file may change."""
        speed = self._scaling.get("upscalingSpeed")
        return max(1, math.ceil(speed * max(1, alive))) if speed else sys.maxsize

    def scale(self, wanted):
        """Sets the sizes of `rayctl scale`, all or none. Raises Refusal and OSError."""
        limits = dict(self.limits)
        for size in wanted:
            limits[size["group"]] = asked(self._orders["groups"], self.limits, size["group"], size["min"], size["max"])
        for size in wanted:
            self.hopeless.pop(size["group"], None)
        self.write(limits)
        for size in wanted:
            self._show(size["group"], "scale")

    def changed(self, groups):
        """The sizes of a changed cluster file that differ: (minimum, maximum, at the start) by name. Raises Refusal."""
        changed = {name: tuple(size) for name, size in groups.items() if tuple(size) != self._accepted.get(name, (0, 0, 0))}
        for name, (least, largest, _) in changed.items():
            if name not in self._accepted:
                raise Refusal("group %s has no nodes in the cluster: it was launched with a maxReplicas of 0" % name)
            possible(next(g for g in self._orders["groups"] if g["name"] == name), least, largest)
        return changed

    def resize(self, changed, scaling):
        """Applies them; returns the groups that have more nodes at the start than before, and how many. Raises OSError."""
        before, grown = self._scaling, []
        for name in changed:
            self.hopeless.pop(name, None)
        if is_elastic(self._orders):
            self.write(dict(self.limits, **{name: size[:2] for name, size in changed.items()}), scaling or before)
        for name, size in changed.items():
            if size[2] > self._accepted[name][2]:
                grown.append((name, size[2]))
            self._accepted[name] = size
            self._show(name, "change")
        if self._scaling != before:
            self._state.note("change", "scaling", "", "idle nodes are removed after %s" % duration(autoscaling.idle({"scaling": self._scaling})))
        return grown

    def learn(self, found):
        """Ray's autoscaler takes resources that the cluster file does not give from the nodes that have existed. Raises OSError."""
        if found != self._found:
            self._found = dict(found)
            self.write()

    def write(self, limits=None, scaling=None):
        """Ray would end nodes above a lower maximum at once, even if they are in use. Therefore its maximum is at least the present number of nodes; unused ones are
        removed later. If a group can get no more nodes, its maximum is the present number, so that Ray itself reports that further demand cannot be satisfied. Raises OSError."""
        limits, scaling = limits or self.limits, self._scaling if scaling is None else scaling
        there, written = collections.Counter(m.group["name"] for m in self._nodes.all()), {}
        for group in self._orders["groups"]:
            name, (least, largest) = group["name"], limits[group["name"]]
            has = max(group["count"], there[name])
            written[name] = (min(least, has), has) if name in self.hopeless else (least, max(largest, there[name]))
        autoscaling.write(dict(self._orders, scaling=scaling), self._run_dir, written, self._found)
        self.limits, self._scaling = limits, scaling

    def _show(self, name, event):
        least, largest = self.limits[name]
        self._state.note(event, name, "", "at least %d and at most %d nodes" % (least, largest))
        self._state.change(groups=[dict(g, min=least, max=largest) if g["name"] == name else g for g in self._state.doc["groups"]])


def possible(group, least, largest):
    """Raises Refusal if a group cannot have that many nodes."""
    if most(group) == group["count"]:
        raise Refusal("group %s is not elastic: it was launched without a maxReplicas above minReplicas" % group["name"])
    if not group["count"] <= least <= most(group):
        raise Refusal("group %s can have %d to %d nodes, and not %d" % (group["name"], group["count"], most(group), least))
    if not least <= largest <= most(group):
        raise Refusal("the maximum of group %s can be %d to %d nodes, and not %d" % (group["name"], least, most(group), largest))


def asked(groups, limits, name, least, largest):
    """The minimum and maximum for the group of that name (None: as in limits, or the minimum if that is above), or Refusal."""
    group = next((g for g in groups if g["name"] == name), None)
    if group is None:
        raise Refusal("there is no group %s; there is %s" % (name, ", ".join(g["name"] for g in groups)))
    if largest is None:
        largest = max(limits[name][1], least)
    possible(group, least, largest)
    return least, largest
