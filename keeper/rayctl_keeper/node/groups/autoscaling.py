"""The configuration file of Ray's autoscaler (Ray 2.60: autoscaler/ray-schema.json; autoscaler/v2 reads it again in each round). Pure but for write."""

import functools
import json
import os

from rayctl_keeper.node.groups.members import largest, members, most, on_one_machine
from rayctl_keeper.state.document import write_atomically

FILE = "autoscaling.json"  # in the run directory; JSON is YAML
HEAD = "head"  # its node type
REQUIRED = ".required"  # ends the node type of the required nodes of a group: Ray never gives these up, and asks for others if they are lost
IDLE = 300.0  # seconds


def settings(orders):
    """Variables of the autoscaler's process (Ray 2.60, autoscaler/_private/constants.py). By itself it looks for demand every 5 s, asks for five nodes of a
    group at a time, ends a node that is queued for an hour, and never one that nothing needs any more while it is queued.

    It looks as often as it can be set to, in whole seconds: a node that nothing uses is there for two looks more, one of which has Ray drain it and the next one
    ends it. A look costs some 10 ms of a processor."""
    return {
        "RAY_enable_autoscaler_v2": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "AUTOSCALER_MAX_LAUNCH_BATCH": str(largest(orders)),
        "AUTOSCALER_MAX_CONCURRENT_LAUNCHES": str(2 * largest(orders)),
        "RAY_AUTOSCALER_RECONCILE_ALLOCATE_STATUS_TIMEOUT_S": str(10 ** 9),
        "RAY_AUTOSCALER_PENDING_NODE_IDLE_TIMEOUT_S": str(int(idle(orders))),
    }


def idle(orders):
    """Seconds for which a node that nothing needs is kept."""
    return float((orders.get("scaling") or {}).get("idle") or IDLE)


def path(run_dir):
    """Where the file is."""
    return os.path.join(run_dir, FILE)


def write(orders, run_dir, limits, found=None):
    """Replaces the file, which the autoscaler reads again in each round. limits are (least, most) nodes by group; found is what Ray has counted on nodes, by
    group, where the orders leave it open."""
    write_atomically(path(run_dir), json.dumps(document(orders, run_dir, limits, found or {})).encode())


def limits_of(orders):
    """The configuration in the orders."""
    return {g["name"]: (g["count"], most(g)) for g in orders["groups"]}


def node_type(member):
    """Ray's name for nodes like this one."""
    if member.head:
        return HEAD
    return member.group["name"] + ("" if member.beyond else REQUIRED)


def document(orders, run_dir, limits, found):
    """The file's content. Ray wants every list and map, empty ones too."""
    head = members(orders)[0].group
    seen = [each["memory"] for each in found.values() if "memory" in each]
    here = {"memory": min(seen)} if seen and on_one_machine(orders) else {}
    like = functools.partial(node_like, found=lambda name: found.get(name) or here)
    types = {HEAD: like(head, 0)}
    for group in orders["groups"]:
        least, largest = limits[group["name"]]
        required = group["count"] - (group is head)
        if required:
            types[group["name"] + REQUIRED] = dict(like(group, required), min_workers=required)
        if most(group) > group["count"]:
            types[group["name"]] = dict(like(group, largest - group["count"]), min_workers=least - group["count"])
    scaling = orders.get("scaling") or {}
    lists = ("cluster_synced_files", "rsync_exclude", "rsync_filter", "initialization_commands", "setup_commands", "head_setup_commands",
             "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands")
    return dict({name: [] for name in lists}, auth={}, docker={}, file_mounts={}, cluster_name=orders["name"], head_node_type=HEAD,
                available_node_types=types, max_workers=sum(t["max_workers"] for t in types.values()),
                idle_timeout_minutes=idle(orders) / 60.0, upscaling_speed=float(scaling.get("upscalingSpeed") or 1.0),
                provider={"type": "external", "module": "rayctl_keeper.rayhook.provider.KeeperNodes", "run_dir": run_dir, "file": path(run_dir), "use_internal_ips": True,
                          "disable_node_updaters": True, "disable_launch_config_check": True, "foreground_node_launch": True})


def node_like(group, count, found):
    """The node type of a group's nodes, up to count of them."""
    given = {"CPU": group.get("cpus"), "GPU": group.get("gpus"), "memory": group.get("memory"), "object_store_memory": group.get("objectStoreMemory")}
    given.update(group.get("resources") or {})
    resources = dict(found(group["name"]), **{name: value for name, value in given.items() if value is not None})
    return {"node_config": {}, "min_workers": 0, "max_workers": count, "labels": dict(group.get("labels") or {}, **{"rayctl.io/group": group["name"]}),
            "resources": {name: int(value) for name, value in resources.items() if value}}
