"""What waits in Ray and no group can ever satisfy. Ray's autoscaler calls all infeasible that waits while groups have their most nodes; what is told here is only
what no node is large enough for, or more nodes apart than there may be. Its own warning goes to the drivers' output (Ray 2.60, autoscaler/v2/event_logger.py)."""

from ray.core.generated import autoscaler_pb2

LONGEST = 300  # characters


def unmet(reply, types, most):
    """Sentences, of GCS' answer on the cluster's status (GetClusterStatusReply, serialised); types are the resources of a node of each group, most is how many
    nodes there may be."""
    status = autoscaler_pb2.GetClusterStatusReply()
    status.ParseFromString(reply)
    shapes = list(types) + [dict(node.total_resources) for node in status.cluster_resource_state.node_states]
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
    """Whether it must have a node of its own (STRICT_SPREAD)."""
    return any(constraint.HasField("anti_affinity") for constraint in request.placement_constraints)


def too_large(who, requests, shapes):
    """A sentence for each request that fits on no node."""
    for request in requests:
        wanted = dict(request.resources_bundle)
        if not any(all(shape.get(name, 0) >= amount for name, amount in wanted.items()) for shape in shapes):
            words = ", ".join("%s %g" % item for item in sorted(wanted.items()))
            yield ("%s for a node with %s, and no group has such nodes" % (who, words))[:LONGEST]
