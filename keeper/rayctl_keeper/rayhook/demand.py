"""Finds requests in Ray that no node can ever satisfy: in a cluster with elastic groups those that Ray's autoscaler calls infeasible, in another one those that wait.
Each rule asks for less than Ray does, so that what only waits for its turn is never reported."""

import collections
import re

from rayctl_keeper.state.reserves import words

LONGEST = 300  # characters
DEAD = 2  # of a node's status: autoscaler.proto, NodeStatus
ROUNDING = 1e-6
OF_A_GROUP = re.compile(r"_group_(\d+_)?[0-9a-f]{20,}$")  # a resource of a placement group, which waits itself
TASKS, GROUP, CALL = "tasks or actors wait", "a placement group waits", "request_resources waits"


def unmet(reply, types, most):
    """Returns a sentence for each such request. reply is the GCS' serialised GetClusterStatusReply. types are the resources of a node by the name of its group, empty
    for a cluster without elastic groups; most is the maximum number of nodes."""
    from ray.core.generated import autoscaler_pb2
    status = autoscaler_pb2.GetClusterStatusReply()
    status.ParseFromString(reply)
    return sorted(set(beyond_groups(status, types, most) if types else beyond_nodes(status.cluster_resource_state)))


def beyond_groups(status, types, most):
    """Of requests that the autoscaler has given up. It gives up each that waits while groups have their maximum of nodes: reported are those for which no node is large enough, and
    those for more separate nodes than there may be. The warning of Ray's autoscaler itself goes to the drivers' output (Ray 2.60, autoscaler/v2/event_logger.py)."""
    shapes = list(types.items()) + [("", dict(node.total_resources)) for node in status.cluster_resource_state.node_states]
    state = status.autoscaling_state
    for request in state.infeasible_resource_requests:
        yield from too_large(TASKS, [request], shapes)
    for gang in state.infeasible_gang_resource_requests:
        yield from too_large(GROUP, gang.requests, shapes)
        if sum(apart(request) for request in gang.requests) > most:
            yield "a placement group waits for %d nodes, and the cluster can have %d: raise maxReplicas" % (len(gang.requests), most)
    for constraint in state.infeasible_cluster_resource_constraints:
        yield from too_large(CALL, [counted.request for counted in constraint.resource_requests], shapes)


def too_large(who, requests, shapes):
    """A sentence for each request that fits on no node."""
    for request in requests:
        wanted = dict(request.resources_bundle)
        if any(fits(wanted, shape) for _, shape in shapes):
            continue
        rest = {name: amount for name, amount in wanted.items() if name != "memory"}
        open_to = next((name for name, shape in shapes if name and "memory" not in shape and fits(rest, shape)), None)
        if open_to:
            yield ("%s for a node with %s, but the memory of group %s is not known before its first node: set the group's memory in the cluster file"
                   % (who, words(wanted), open_to))[:LONGEST]
        else:
            yield ("%s for a node with %s, and no group has such nodes" % (who, words(wanted)))[:LONGEST]


def beyond_nodes(state):
    """Of requests that wait in a cluster that keeps the nodes it has. state is a ClusterResourceState."""
    nodes = [dict(node.total_resources) for node in state.node_states if node.status != DEAD]
    nodes = [node for node in nodes if node]
    if not nodes:
        return
    for counted in state.pending_resource_requests:
        yield from none_has(TASKS, bundle(counted.request), nodes)
    for gang in state.pending_gang_resource_requests:
        yield from no_room(gang.requests, nodes)


def no_room(requests, nodes):
    """A sentence for each reason why the nodes can never have a placement group."""
    bundles = [bundle(request) for request in requests]
    if any(together(request) for request in requests):
        yield from none_has("a placement group (STRICT_PACK) waits", total(bundles), nodes)
        return
    too_much = [sentence for wanted in bundles for sentence in none_has(GROUP, wanted, nodes)]
    if too_much:
        yield from too_much
    elif any(apart(request) for request in requests):
        yield from too_few(bundles, nodes)
    else:
        yield from too_full(bundles, nodes)


def too_few(bundles, nodes):
    """Of bundles that need a node each."""
    if len(bundles) > len(nodes):
        yield "a placement group (STRICT_SPREAD) waits for %d nodes, and the cluster has %d" % (len(bundles), len(nodes))
        return
    for wanted, count in alike(bundles):
        found = sum(fits(wanted, node) for node in nodes)
        if count > found:
            yield ("a placement group (STRICT_SPREAD) waits for %d nodes with %s each, and the cluster has %d" % (count, words(wanted), found))[:LONGEST]


def too_full(bundles, nodes):
    """Of bundles that may share a node."""
    wanted, there = total(bundles), total(nodes)
    if not fits(wanted, there):
        lacking = [name for name in wanted if not fits({name: wanted[name]}, there)]
        yield ("a placement group waits for %s in all, and the nodes have %s"
               % (words({name: wanted[name] for name in lacking}), words({name: there.get(name, 0) for name in lacking})))[:LONGEST]
        return
    for wanted, count in alike(bundles):
        room = sum(times(wanted, node) for node in nodes) if wanted else count
        if count > room:
            yield ("a placement group waits for %d bundles of %s, and the nodes have room for %d" % (count, words(wanted), room))[:LONGEST]


def none_has(who, wanted, nodes):
    """A sentence, if no node has so much."""
    if not any(map(OF_A_GROUP.search, wanted)) and not any(fits(wanted, node) for node in nodes):
        largest = {name: max(node.get(name, 0) for node in nodes) for name in wanted}
        yield ("%s for a node with %s, and there is none (a node has at most %s)" % (who, words(wanted), words(largest)))[:LONGEST]


def bundle(request):
    """What a request asks of one node."""
    return {name: amount for name, amount in request.resources_bundle.items() if amount}


def apart(request):
    """Returns whether a request needs a separate node (STRICT_SPREAD)."""
    return any(constraint.HasField("anti_affinity") for constraint in request.placement_constraints)


def together(request):
    """Returns whether a request needs the node of the others (STRICT_PACK)."""
    return any(constraint.HasField("affinity") for constraint in request.placement_constraints)


def total(amounts):
    """The sum of amounts of resources."""
    found = collections.Counter()
    for each in amounts:
        found.update(each)
    return dict(found)


def alike(bundles):
    """The different bundles, each with their number."""
    counted = collections.Counter(tuple(sorted(wanted.items())) for wanted in bundles)
    return [(dict(wanted), count) for wanted, count in sorted(counted.items())]


def times(wanted, node):
    """How many such bundles a node has room for."""
    return min(int(node.get(name, 0) / amount + ROUNDING) for name, amount in wanted.items())


def fits(wanted, shape):
    """Whether a node with these resources has so much."""
    return all(shape.get(name, 0) + ROUNDING >= amount for name, amount in wanted.items())
