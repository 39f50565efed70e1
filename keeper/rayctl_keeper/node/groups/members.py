"""The nodes of a cluster by name. Pure."""


GANG = ".gang"  # stands for all nodes but an early head, where they have one job; no group of a cluster file can be called so


def on_one_machine(orders):
    """Whether the keeper starts all nodes on its own machine (launcher/keeper/orders.go, Start.Mode)."""
    return (orders.get("start") or {}).get("mode") in ("spawn", "queue")


class Member:
    """One node of the cluster: its group, and its place in it."""

    def __init__(self, group, ordinal, head=False, beyond=False):
        self.group, self.ordinal, self.head = group, ordinal, head
        self.beyond = beyond  # the required ones
        self.name = "%s-%d" % (group["name"], ordinal)
        # Of nodes that Ray's autoscaler asked for (run/elastic/elastic.py): a number for each, its request, and whether it has given it up.
        self.serial, self.request, self.released = 0, "", False
        self.before = frozenset()  # Ray's ids of nodes that had this name
        self.message = ""  # why there is no such node, of a batch system
        self.died = False  # it ended before it was released
        self.hopeless = False  # and whether there never will be one
        self.drain, self.drained = None, ""  # the moment by which it must be empty, in epoch seconds, and why


def members(orders):
    """The required nodes, the head first."""
    found = [Member(group, i) for group in orders["groups"] for i in range(group["count"])]
    found[0].head = True
    return found


def named(orders, name):
    """The node of that name, of the required ones or beyond them."""
    for member in members(orders):
        if member.name == name:
            return member
    group, _, ordinal = name.rpartition("-")
    return Member(next(g for g in orders["groups"] if g["name"] == group), int(ordinal), beyond=True)


def most(group):
    """How many nodes of the group there may be."""
    return max(group["count"], group.get("max") or 0)


def largest(orders):
    """How many nodes there may be."""
    return sum(most(g) for g in orders["groups"])


def is_elastic(orders):
    """Whether there may be more nodes than the required ones: Ray's autoscaler then runs on the head."""
    return any(most(g) > g["count"] for g in orders["groups"])


def allocation_id(member):
    """The id of the allocation of a node that Ray's autoscaler asked for."""
    return "%s.%d" % (member.name, member.serial)


def joined_allocation(name, node):
    """The same of a node that somebody else started, by its name and Ray's id."""
    return "%s.%s" % (name, node[:8])


def instance(name, round, serial, tries):
    """Ray's id for one life of a node: each start of Ray must have another (Ray 2.60, autoscaler/v2/instance_manager/node_provider.py, CloudInstanceId)."""
    return "%s.%d.%d.%d" % (name, round, serial, tries)
