"""Finds requests in Ray that no group can ever satisfy. Ray's autoscaler calls every request infeasible that waits while groups have their maximum of
nodes. This module reports only requests for which no node is large enough, and requests for more separate nodes than there may be. The warning of
Ray's autoscaler itself goes to the drivers' output (Ray 2.60, autoscaler/v2/event_logger.py)."""

from ray.core.generated import autoscaler_pb2

LONGEST = 300  # characters


def unmet(reply, types, most):
    """Returns a sentence for each such request. reply is the GCS' serialised GetClusterStatusReply, types are the resources of a node by the name of its group,
    most is the maximum number of nodes."""
    status = autoscaler_pb2.GetClusterStatusReply()
    status.ParseFromString(reply)
    shapes = list(types.items()) + [("", dict(node.total_resources)) for node in status.cluster_resource_state.node_states]
    state, found = status.autoscaling_state, set()
    for request in state.infeasible_resource_requests:
        found.update(too_large("tasks or actors wait", [request], shapes))
    for gang in state.infeasible_gang_resource_requests:
        found.update(too_large("a placement group waits", gang.requests, shapes))
        if sum(apart(request) for request in gang.requests) > most:
            found.add("a placement group waits for %d nodes, and the cluster can have %d: raise maxReplicas" % (len(gang.requests), most))
    for constraint in state.infeasible_cluster_resource_constraints:
        found.update(too_large("request_resources waits", [counted.request for counted in constraint.resource_requests], shapes))
    return sorted(found)


def apart(request):
    """Returns whether a request needs a separate node (STRICT_SPREAD)."""
    return any(constraint.HasField("anti_affinity") for constraint in request.placement_constraints)


def too_large(who, requests, shapes):
    """Returns a sentence for each request that fits on no node."""
    for request in requests:
        wanted = dict(request.resources_bundle)
        if any(fits(wanted, shape) for _, shape in shapes):
            continue
        words = ", ".join("%s %g" % item for item in sorted(wanted.items()))
        rest = {name: amount for name, amount in wanted.items() if name != "memory"}
        open_to = next((name for name, shape in shapes if name and "memory" not in shape and fits(rest, shape)), None)
        if open_to:
            yield ("%s for a node with %s, but the memory of group %s is not known before its first node: set the group's memory in the cluster file"
                   % (who, words, open_to))[:LONGEST]
        else:
            yield ("%s for a node with %s, and no group has such nodes" % (who, words))[:LONGEST]


def fits(wanted, shape):
    """Whether a node with these resources has so much."""
    return all(shape.get(name, 0) >= amount for name, amount in wanted.items())
