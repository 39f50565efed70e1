"""An early head: Ray's head is there before the gang, so that job.prepare runs while the gang is queued."""

import time

from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.node.headwatch import HeadWatch
from rayctl_keeper.run.allocations.allocations import Allocations
from rayctl_keeper.state.document import seconds_of, wall
from rayctl_keeper.state.exits import AttemptLost, End, Leaving
from rayctl_keeper.state.model import AllocationState, Cause, JobState, NodeState, Phase, Purpose, Reason

STARTING = (Phase.QUEUED, Phase.STARTING)  # phases before all nodes are there
DOUBT = 10.0  # seconds in which Slurm shows that a job has ended whose nodes have
# What follows when Slurm has ended the gang's job in a state, and why in words. The other states are losses.
CAUSES = {"PREEMPTED": (Cause.PREEMPTED, "was preempted"), "TIMEOUT": (Cause.TIME_LIMIT, "reached its time limit"), "DEADLINE": (Cause.TIME_LIMIT, "reached its deadline")}


# How the sentence about a gang goes on whose nodes are going to be taken away.
SOON = {Cause.PREEMPTED: "is being preempted", Cause.TIME_LIMIT: "is about to reach its time limit"}
UNREACHED = ", where it runs: set slurm.network to a network that both have, or choose another head.slurm.partition; `rayctl doctor` tests whether they connect"
LAST = 5.0  # seconds of those that the gang has left, for its end


class Early:
    """Asks for the gang when the head is alive, and shows why it waits. Everything is for the main thread."""

    def __init__(self, orders, nodes, gang, cluster, limits, state):
        self._nodes, self._gang, self._cluster, self._limits, self._state = nodes, gang, cluster, limits, state
        self._groups, self._allocations = orders["groups"], Allocations(state)
        self.active = bool(orders["start"].get("early"))
        self.queued = False  # the gang is
        self._grants = {}  # head, gang -> since when its first pod has a node, in epoch seconds
        self._seen = None

    def resume(self):
        """As a keeper before this one had it."""
        self.queued = any(a["purpose"] == Purpose.GANG and a["state"] == AllocationState.QUEUED for a in self._state.doc["allocations"])

    def granted(self, part, at):
        """POST /v1/granted: a pod has its node."""
        self._grants[part] = min(at, self._grants.get(part, at))
        self._allocations.change(part, lambda a: dict(a, granted=a["granted"] and min(a["granted"], self._since(part), key=seconds_of)))  # Ray was faster

    def admitted(self):
        """The head has its allocation."""
        if not self.active or not self._nodes.head_apart or self._nodes.external and Purpose.HEAD in self._allocations.open():
            return
        where, since = self._nodes.granted_as()
        at = self._since(Purpose.HEAD, since)
        self._allocations.add(Purpose.HEAD, {self._groups[0]["name"]: 1}, at, where, queued=at)

    def begin(self):
        """The head is alive: the gang is asked for."""
        self._nodes.start_gang(self._allocations.next(Purpose.GANG))
        if self._standing() is None:
            return
        if self._nodes.external:
            self._cluster.used()  # a head that is lost from here on has lost what it prepared
            if Purpose.GANG in self._allocations.open():  # a keeper before this one has seen it
                return
        self.queued = True
        self._limits.stop("start")
        self._limits.begin("queue", time.monotonic())
        self._allocations.add(Purpose.GANG, {g["name"]: g["count"] for g in self._groups[1:] if g["count"]})
        self._state.phase(Phase.QUEUED, Reason.SUBMITTED, "the gang is being requested")
        self._seen = None
        self.look()

    def look(self):
        """Takes over what became of the gang. Raises End if it can never come, and Leaving where it is going to be taken away."""
        if not self.active:
            return
        self._warned()
        if not self._gang.have or self._state.doc["phase"] not in STARTING:
            return
        standing = self._standing()
        seen = (standing, self._gang.have, self._gang.complete, self._doing())
        if seen == self._seen:  # as nearly always: it is asked at each wake
            return
        self._seen = seen
        if self.queued and standing:
            self._stands(*standing)
        if self._gang.complete:
            self._cluster.ready()
        self._show(standing)

    def _standing(self):
        """As Nodes.gang_standing. Pods report that they have nodes; if they cannot, Ray's list of nodes shows it."""
        if not self._nodes.external:
            return self._nodes.gang_standing()
        if Purpose.GANG in self._grants or any(n["state"] == NodeState.ALIVE and n["group"] != self._groups[0]["name"] for n in self._state.doc["nodes"]):
            return AllocationState.GRANTED, "", self._nodes.granted_as()[0], False
        return AllocationState.QUEUED, "WaitingForGang", "it has no nodes yet", False

    def _warned(self):
        """What Slurm signals before a time limit or a preemption is the end of the attempt, which needs all nodes of the gang."""
        leaves = self._nodes.gang_leaves()
        if leaves:
            end, cause = leaves
            raise Leaving("the gang %s" % SOON[cause], max(1.0, end - LAST - time.time()), cause)

    def _stands(self, state, _, message, never):
        granted = state == AllocationState.GRANTED
        since = self._since(Purpose.GANG) if granted else None
        self._allocations.change(Purpose.GANG, lambda a: dict(a, state=state, where=message if granted else a.get("where") or "", message="" if granted else message,
                                                         granted=since, queued=min(a["queued"], since or a["queued"], key=seconds_of)))
        if never:
            raise End(Cause.START_FAILED, "Slurm can never start the gang: " + message, retryable=False)
        if granted:
            self.queued = False
            self._limits.stop("queue")
            self._limits.begin("start", time.monotonic())
            self._state.phase(Phase.STARTING, "WaitingForNodes", self._gang.have)

    def _show(self, standing):
        """The reason of the phase: what runs, and what is waited for."""
        code, parts = "WaitingForNodes", [self._doing()]
        if self.queued and standing:
            code = standing[1]
            parts.append("the gang waits: " + standing[2])
        elif not self._gang.complete:
            parts.append(self._gang.have)
        elif parts[0]:
            code = "Preparing"
        else:
            return
        self._state.phase(self._state.doc["phase"], code, "; ".join(part for part in parts if part))

    def _doing(self):
        job = self._state.doc["job"]
        if not job:
            return ""
        if (job.get("prepare") or {}).get("state") in (JobState.PENDING, JobState.RUNNING):
            return "job.prepare runs"
        return "the driver runs" if job["state"] in (JobState.PENDING, JobState.RUNNING) and not self._gang.complete else ""

    def ended(self, name):
        """Something of the cluster ended. Returns whether it is not the gang's job, whose end is that of the attempt: raises AttemptLost, or End."""
        if name != GANG:
            self._unreached(name)
            return False
        job = self._nodes.gang
        self._allocations.release(Purpose.GANG, job.message)
        if not job.ending:
            raise End(Cause.START_FAILED, "the gang cannot be requested: " + job.message, retryable=False)
        if job.ending == "CANCELLED":
            raise End(Cause.INTERRUPTED, "somebody cancelled the gang: " + job.message)
        cause, words = CAUSES.get(job.ending, (Cause.LOST, "was lost"))
        raise AttemptLost("the gang %s: %s" % (words, self._gang.reported(None) or job.message), cause, head_lives=True)

    def _unreached(self, name):
        """A node of the gang has not reached the head. If the head still takes connections, the network keeps them apart, and no other attempt can help. Raises End."""
        reports = [self._nodes.report(m) for m in self._nodes.members if m.name == name and self._nodes.gang]
        if any(r.get("unreached") for r in reports) and HeadWatch(self._nodes.gcs).lives():
            raise End(Cause.START_FAILED, reports[0]["message"] + UNREACHED, retryable=False)

    def confirm(self, rest):
        """A driver failed: perhaps because its workers are being taken away, which Slurm shows a moment later. Raises as ended() does then."""
        until = time.monotonic() + DOUBT
        while self.active:
            doubt = self._nodes.confirm_gang()
            rest(0.3 if doubt else 0)
            if not doubt or time.monotonic() > until:
                return

    def forget(self):
        """The gang is going to end; another one may follow."""
        self.queued, self._seen = False, None
        self._grants.clear()  # pods start Ray again, and report again
        self._limits.stop("queue")
        self._allocations.release(Purpose.GANG, "it ended with its cluster")
        if self._nodes.external:
            self._allocations.release(Purpose.HEAD, "it ended with its cluster")

    def close(self):
        """All ends."""
        self.forget()
        self._allocations.release(Purpose.HEAD, "it ended with its cluster")

    def _since(self, purpose, known=None):
        """When the allocation was granted: now, or earlier if a pod or the substrate reported so, but not before the end of the previous one."""
        ends = [seconds_of(a["released"]) for a in self._state.doc["allocations"] if a["purpose"] == purpose and a["released"]]
        return wall(max([min(time.time(), self._grants.get(purpose) or known or time.time())] + ends))
