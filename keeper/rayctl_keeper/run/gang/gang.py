"""The gang: which of the requested nodes are up, according to Ray and to the supervisors' reports."""

import time

from rayctl_keeper.node.groups.members import allocation_id, joined_allocation, most
from rayctl_keeper.ray.dashboard import Unreachable, version_tuple
from rayctl_keeper.run.allocations.allocations import held
from rayctl_keeper.run.allocations.nodeallocations import joined
from rayctl_keeper.state.exits import AttemptLost, End
from rayctl_keeper.state.model import STARTED_AGAIN, Cause, Event, NodeState


SILENT = 10.0  # seconds after Ray has lost a node within which a running supervisor reports it
LATELY = 300.0  # seconds after the loss of a node within which a driver that fails is taken to fail because of it
PREEMPTED = "Terminated due to preemption"  # the beginning of state_message in Ray 2.60 (AUTOSCALER_DRAIN_PREEMPTED)
OTHERS = {"slot": "the job that holds the queue's slot"}  # children that are no supervisors


class Gang:
    """Compares the orders with Ray's view, and writes it into the state document."""

    def __init__(self, orders, nodes, state):
        self.orders, self.nodes, self.state = orders, nodes, state
        self.found = {}  # group name -> what Ray has counted itself on the last of its nodes, see counted_by_ray
        self.forget()

    def forget(self):
        """Prepares for the next start of the cluster."""
        self.session = None  # Ray's name of the head's life, None before its first answer
        self.complete = False  # once all were ALIVE; it stays so when a worker dies
        self.dead = {}  # node name -> why its supervisor ended
        self.have = ""  # how many are there, in words
        self.seen = {}  # node name -> Ray's ids of all nodes that had it
        self.told = {}  # node name -> what its supervisor reported last while the node was ALIVE
        self.mute = {}  # node name -> since when Ray has lost it without a report of its supervisor
        self.losses = {}  # name of a required node -> when it was lost since the gang was complete, and the message
        self.rows = []  # of an external cluster: (group, Ray's row) of all nodes, also of those that have ended

    def resume(self, session):
        """It was complete in an earlier keeper's life, and stays so. Another head than that one is a head that was lost meanwhile."""
        self.session, self.complete = session, True

    def greet(self, answer):
        """The head's first answer."""
        leaving = self.state.doc["head"].get("leaving")
        if leaving and answer.get("session_name") == leaving:
            raise Unreachable("the head that is being taken away still answers")
        version, wanted = answer.get("ray_version", ""), self.orders["ray"].get("version")
        if wanted and version != wanted:
            raise End(Cause.START_FAILED, "the cluster has Ray %s, but ray.version asks for %s" % (version, wanted), retryable=False)
        least = self.orders["ray"].get("least")
        if least and version_tuple(version) < version_tuple(least):
            raise End(Cause.START_FAILED, "the image has Ray %s, which is older than %s, and neither ray.version nor the image's tag says so: set ray.version to %s" % (version, least, version), retryable=False)
        self.session = answer.get("session_name") or ""
        self.state.change(head=dict(
            self.state.doc["head"], address=self.nodes.gcs, dashboard=self.nodes.dashboard, clientPort=self.nodes.client_port,
            session=self.session, rayVersion=version, token=version_tuple(version) >= (2, 52), tokenFile=self.nodes.token_file(),
            fastStart=starts_fast(self.orders["ray"].get("fastStart") or "always", version)))

    def same_head(self, answer):
        """Raises AttemptLost if this is another head than the one that greeted."""
        if self.is_another(answer):
            raise AttemptLost("the head was restarted (session %s became %s)" % (self.session, answer.get("session_name") or ""))

    def is_another(self, answer):
        """Whether this is another head than the one that greeted."""
        return (answer.get("session_name") or "") != self.session

    def listed(self, dashboard, timeout):
        """Ray's rows of nodes; of an external cluster with the times of their lives."""
        return dashboard.state("nodes", timeout, **({"detail": True} if self.nodes.external else {}))

    def count(self, rows):
        """Takes over Ray's rows of nodes; returns whether the gang is complete."""
        nodes, ready = (self.by_label if self.nodes.external else self.by_name)(rows)
        required = {g["name"]: g["count"] for g in self.orders["groups"]}
        groups = [self.counted(g, ready.get(g["name"], 0), required[g["name"]]) for g in self.state.doc["groups"]]
        head = next((r["node_id"] for r in rows if r.get("is_head_node") and r["state"] == NodeState.ALIVE), self.state.doc["head"]["nodeId"])
        self.state.change(nodes=nodes, groups=groups, head=dict(self.state.doc["head"], nodeId=head), allocations=joined(self.state.doc["allocations"], nodes))
        have, wanted = sum(min(g["ready"], required[g["name"]]) for g in groups), sum(required.values())
        self.have = "%d of %d nodes are alive" % (have, wanted)
        if have < wanted and not self.complete and not (self.orders.get("start") or {}).get("early"):  # run/gang/early.py sets a more exact reason
            self.state.phase(self.state.doc["phase"], "WaitingForNodes", self.have)
        there = have >= wanted and not (self.nodes.external and has_ghost(rows))
        self.complete = self.complete or there
        return there

    def counted(self, group, ready, required):
        """The group with the nodes that are alive, and those that are there or on their way."""
        wanted = required + sum(m.group["name"] == group["name"] for m in self.nodes.extra.values())
        if self.nodes.external and group.get("max"):
            wanted = max(wanted, ready)
        return dict(group, ready=min(ready, wanted), wanted=wanted)

    def row(self, name):
        """What is shown of a node."""
        return next((n for n in self.state.doc["nodes"] if n["name"] == name), {})

    def by_label(self, rows):
        """Nodes of others: KubeRay labels them with their group (Ray 2.49 and later); else only head and workers are distinguished. Those that an
        autoscaler has given up are not shown: they come and go, `allocations` has them."""
        nodes, ready, self.rows, groups = [], {}, [], [g["name"] for g in self.orders["groups"]]
        workers = [g["name"] for g in self.orders["groups"][1:] if g["count"]] + groups[1:] + groups[:1]
        last = newest(rows)
        for row in rows:
            labels = row.get("labels") or {}
            group = labels.get("rayctl.io/group") or labels.get("ray.io/node-group") or ""
            if group not in groups:
                group = groups[0] if row.get("is_head_node") else workers[0]
            self.rows.append((group, row))
            if row["state"] == NodeState.DEAD and drained(row) or row["node_id"] not in last:
                continue
            ready[group] = ready.get(group, 0) + (row["state"] == NodeState.ALIVE)
            name = row.get("node_name") or row["node_id"][:8]
            nodes.append(({"name": name, "group": group, "pid": 0, "nodeId": row["node_id"], "state": row["state"],
                           "host": row.get("node_ip") or "", "message": row.get("state_message") or ""},
                          row, bool(row.get("is_head_node")), joined_allocation(name, row["node_id"])))
        return held(nodes, self.state.doc), ready

    def by_name(self, rows):
        """Nodes that our supervisors started, by the names they gave them."""
        nodes, ready = [], {}
        for member in self.nodes.all():
            mine = [r for r in rows if r.get("node_name") == member.name and r["node_id"] not in member.before]
            self.seen.setdefault(member.name, set()).update(r["node_id"] for r in mine)
            row = next((r for r in mine if r["state"] == NodeState.ALIVE), mine[-1] if mine else {})
            report, state = self.nodes.report(member), row.get("state", NodeState.STARTING)
            if state == NodeState.ALIVE:
                self.found[member.group["name"]] = counted_by_ray(row)
            if member.name in self.dead:
                state = NodeState.DEAD
            elif state == NodeState.DEAD and drained(row):
                state = NodeState.ENDED
            elif self.killed(member.name, state, report):
                state = NodeState.DEAD
            elif state == NodeState.DEAD and report.get("state") in ("starting", "retrying"):
                state = NodeState.STARTING  # a worker that Ray lost before
            ready[member.group["name"]] = ready.get(member.group["name"], 0) + (state == NodeState.ALIVE)
            nodes.append(({"name": member.name, "group": member.group["name"], "pid": self.nodes.pid_of(member) or report.get("pid", 0),
                           "nodeId": row.get("node_id", ""), "state": state, "host": report.get("host", ""),
                           "message": self.dead.get(member.name) or row.get("state_message") or report.get("message", "")},
                          row, member.head, allocation_id(member)))
        return held(nodes, self.state.doc), ready

    def killed(self, name, state, report):
        """Whether Ray has lost a node and its supervisor has not reported that within SILENT: then the supervisor was killed, too, and the node may be replaced. In a
        step nothing else shows this."""
        if state != NodeState.DEAD or not report or self.told.get(name) != report:
            self.mute.pop(name, None)
            if state == NodeState.ALIVE:
                self.told[name] = report
            return False
        since = self.mute.setdefault(name, time.monotonic())
        if self.complete and time.monotonic() > since + SILENT:
            self.dead[name] = "its supervisor was killed"
        return True

    def changes(self, rows):
        """Like count, and notes in the timeline which nodes came and went."""
        before = {n["name"]: (n["state"], n["nodeId"]) for n in self.state.doc["nodes"]}
        starting = not self.complete
        self.count(rows)
        if starting:
            return
        for node in self.state.doc["nodes"]:
            if node["name"] in self.nodes.extra:
                continue  # they come and go: `allocations` has them
            state, node_id = before.get(node["name"], (NodeState.ALIVE, ""))
            if state != node["state"]:
                self.state.note(Event.NODE, node["state"], node["name"], node["message"])
                if node["state"] == NodeState.DEAD:
                    self.lost(node["name"], node["group"], node["message"])
            elif node_id and node["nodeId"] and node_id != node["nodeId"]:
                # Its supervisor was faster than Ray's health check.
                self.state.note(Event.NODE, node["state"], node["name"], STARTED_AGAIN + (": " + node["message"] if node["message"] else ""))
                self.lost(node["name"], node["group"], node["message"])

    def lost(self, name, group, message):
        """What runs on a node is gone. Nodes of an elastic group come and go: a driver that uses one has to bear that."""
        if not any(g["name"] == group and most(g) > g["count"] for g in self.orders["groups"]):
            self.losses[name] = (time.monotonic(), message)

    def lost_lately(self):
        """The required node that was lost last, if that may be why the driver has failed: a sentence about it, and the cause that it is for an attempt. None: there is none."""
        name, (when, message) = max(self.losses.items(), key=lambda loss: loss[1], default=("", (0.0, "")))
        if not name or time.monotonic() > when + LATELY and self.row(name).get("state") != NodeState.DEAD:
            return None
        preempted = message.startswith(PREEMPTED)
        return ("node %s was taken away" if preempted else "node %s was lost") % name, Cause.PREEMPTED if preempted else Cause.LOST

    def child_ended(self, name, code):
        """A supervisor or the step ended unexpectedly. Raises AttemptLost where the cluster cannot go on."""
        member = next((m for m in self.nodes.members if m.name == name), None)
        message = self.why(member, code, OTHERS.get(name, "the command that started the nodes"))
        self.dead[name] = message
        self.state.change(nodes=[dict(n, state=NodeState.DEAD, message=message) if n["name"] == name else n for n in self.state.doc["nodes"]])
        self.state.note(Event.NODE, NodeState.DEAD, name, message)
        if not self.complete or member is None or member.head:
            raise AttemptLost(message)
        self.lost(name, member.group["name"], message)

    def why(self, member, code, what=""):
        """Why a child ended: what it reported, or how its process ended. It is a node's supervisor, or `what`."""
        what = "the supervisor of node " + member.name if member else what
        said = "" if member else self.nodes.last_words()
        return self.reported(member) or ("%s was killed by signal %d" % (what, -code) if code < 0 else "%s ended with code %d" % (what, code)) + (said and ": " + said)

    def reported(self, member):
        """What the supervisor reported before it ended; of a step, the first that failed."""
        reports = [self.nodes.report(m) for m in ([member] if member else self.nodes.members)]
        return next((r["message"] for r in reports if r.get("state") == "failed"), "")


def counted_by_ray(row):
    """Resources of a node that Ray counts where the cluster file does not: its memory and the type of its GPUs."""
    total = row.get("resources_total") or {}
    return {name: amount for name, amount in total.items() if name == "memory" or name.startswith("accelerator_type:")}


def newest(rows):
    """Ids: of rows with the same name, which is a pod's address, that of the last one. Where Ray's container started again in its pod, the former node is still listed."""
    by_start = sorted(rows, key=lambda row: row.get("start_time_ms") or 0)
    return set({row.get("node_name") or row["node_id"]: row["node_id"] for row in by_start}.values())


def has_ghost(rows):
    """Whether Ray takes a node for alive in whose pod another one has started: what it puts there fails, until its health check has ended."""
    names = [row["node_name"] for row in rows if row["state"] == NodeState.ALIVE and row.get("node_name")]
    return len(names) != len(set(names))


def drained(row):
    """Whether Ray's autoscaler ended the node because nothing needed it: the beginning of state_message in Ray 2.60 (AUTOSCALER_DRAIN_IDLE)."""
    return (row.get("state_message") or "").startswith("Terminated due to idle")


def starts_fast(wish, version):
    """Whether rayhook/start.py, which has the same rule, has changed Ray's start: always, never, or for the versions listed."""
    return wish == "always" or version in wish.split(",")
