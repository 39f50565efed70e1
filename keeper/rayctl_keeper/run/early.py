"""An early head: Ray's head is there before the gang, so that job.prepare runs while the gang is queued."""

import os
import time

from rayctl_keeper.node.members import GANG
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.exits import AttemptLost, End

STARTING = ("Queued", "Starting")  # phases before all nodes are there
DOUBT = 10.0  # seconds in which Slurm shows that a job has ended whose nodes have
# What follows when Slurm has ended the gang's job in a state, and why in words. The other states are losses.
CAUSES = {"PREEMPTED": ("preempted", "was preempted"), "TIMEOUT": ("time-limit", "reached its time limit"), "DEADLINE": ("time-limit", "reached its deadline")}


class Early:
    """Asks for the gang when the head is alive, and shows why it waits. Everything is for the main thread."""

    def __init__(self, orders, nodes, gang, cluster, limits, state):
        self._nodes, self._gang, self._cluster, self._limits, self._state = nodes, gang, cluster, limits, state
        self._groups, self._start = orders["groups"], orders["start"]
        self.active = bool(self._start.get("early"))
        self.queued = False  # the gang is
        self._serial = max([0] + [int(a["id"].rpartition(".")[2]) for a in state.doc["allocations"]])  # those of earlier attempts
        self._seen = None

    def admitted(self):
        """The head has its allocation."""
        if self.active and self._start["mode"] == "step":
            began = float(os.environ.get("SLURM_JOB_START_TIME") or 0) or time.time()
            self._allocate("head", {self._groups[0]["name"]: 1}, "granted", "job " + os.environ.get("SLURM_JOB_ID", ""), wall(min(began, time.time())))

    def begin(self):
        """The head is alive: the gang is asked for."""
        self._nodes.start_gang(self._serial + 1)
        if self._nodes.gang_standing() is None:
            return
        self.queued = True
        self._limits.stop("start")
        self._limits.begin("queue", time.monotonic())
        self._allocate("gang", {g["name"]: g["count"] for g in self._groups[1:] if g["count"]}, "queued", "", wall())
        self._state.phase("Queued", "Submitted", "the gang is being asked for")
        self.look()

    def look(self):
        """Takes over what became of the gang. Raises End if it can never come."""
        if not self.active or not self._gang.have or self._state.doc["phase"] not in STARTING:
            return
        standing = self._nodes.gang_standing()
        seen = (standing, self._gang.have, self._gang.complete, self._doing())
        if seen == self._seen:  # as nearly always: it is asked at each wake
            return
        self._seen = seen
        if self.queued and standing:
            self._stands(*standing)
        if self._gang.complete:
            self._cluster.ready()
        self._show(standing)

    def _stands(self, state, _, message, never):
        granted = state == "granted"
        self._change("gang", lambda a: dict(a, state=state, message=message, granted=wall() if granted else None))
        if never:
            raise End("start-failed", "Slurm can never start the gang: " + message, retryable=False)
        if granted:
            self.queued = False
            self._limits.stop("queue")
            self._limits.begin("start", time.monotonic())
            self._state.phase("Starting", "WaitingForNodes", self._gang.have)

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
        if (job.get("prepare") or {}).get("state") in ("PENDING", "RUNNING"):
            return "job.prepare runs"
        return "the driver runs" if job["state"] in ("PENDING", "RUNNING") and not self._gang.complete else ""

    def ended(self, name):
        """Something of the cluster ended. Returns whether it is not the gang's job, whose end is that of the attempt: raises AttemptLost, or End."""
        if name != GANG:
            return False
        job = self._nodes.gang
        self._release("gang", job.message)
        if not job.ending:
            raise End("start-failed", "the gang cannot be asked for: " + job.message, retryable=False)
        if job.ending == "CANCELLED":
            raise End("interrupted", "somebody cancelled the gang: " + job.message)
        cause, words = CAUSES.get(job.ending, ("lost", "was lost"))
        raise AttemptLost("the gang %s: %s" % (words, self._gang.reported(None) or job.message), cause)

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
        self._limits.stop("queue")
        self._release("gang", "it ended with its cluster")

    def close(self):
        """All ends."""
        self.forget()
        self._release("head", "it ended with its cluster")

    # The state document.

    def _allocate(self, purpose, groups, state, message, at):
        self._serial += 1
        self._state.change(allocations=self._state.doc["allocations"] + [{
            "id": "%s.%d" % (purpose, self._serial), "purpose": purpose, "groups": groups, "state": state, "queued": at,
            "granted": at if state == "granted" else None, "released": None, "message": message}])

    def _change(self, purpose, change):
        if self.active:
            self._state.change(allocations=[change(a) if a["purpose"] == purpose and not a["released"] else a for a in self._state.doc["allocations"]])

    def _release(self, purpose, message):
        self._change(purpose, lambda a: dict(a, state="released", released=wall(), message=message))
