"""All nodes together: their admission, and their restart after a failed start or the loss of the cluster."""

import time

from rayctl_keeper.run.limits.waiting import LAZY, POLL
from rayctl_keeper.run.nodes.common import AGAIN, OVER
from rayctl_keeper.state.exits import AttemptLost, Detached, End
from rayctl_keeper.state.model import RESTARTS, Cause, Phase

STARTS = 3  # in a row without success
WORTH_ANOTHER_START = ("already occupied", "already running at", "Address already in use", "Failed to bind", "rrno: 98", "Errno 98",
                       "imed out", "Failed to start the dashboard", "Failed to read dashboard", "Errno 24")  # 24: no descriptors at that moment


class Cluster:
    """Starts the nodes again where the orders allow it."""

    def __init__(self, nodes, gang, main, elastic, limits, mail, waiting, attempts, state):
        self._nodes, self._gang, self._main, self._elastic, self._limits, self._mail = nodes, gang, main, elastic, limits, mail
        self._waiting, self._attempts, self._state = waiting, attempts, state
        self._failed_starts = 0  # in a row
        self.early = self.placed = None  # set by the object that creates this one
        self.is_admitted = False  # else the limits that count from the admission do not count yet
        self.in_use = False  # if the cluster is lost before that, its start has failed

    def used(self):
        """The job was submitted: from now on the cluster is in use."""
        self.in_use, self._failed_starts = True, 0

    def wait_for_slot(self):
        """Waits until the queue has a slot for the nodes, which then start."""
        self._limits.begin("queue", time.monotonic())
        self._state.phase(Phase.QUEUED, "NoFreeSlot", "the queue has no free slot")
        self._main.queued("the queue has no free slot")
        try:
            while not self._nodes.granted:
                self._mail.look_for_commit()
                self._waiting.pause(LAZY if self._state.doc["committed"] else POLL)
        except AttemptLost as lost:  # somebody has removed the job from the queue
            raise End(Cause.START_FAILED, str(lost))
        self._limits.stop("queue")
        self._main.granted()
        self._nodes.start()

    def admitted(self):
        """The nodes are granted: limits that count from the admission begin."""
        now, self.is_admitted = time.monotonic(), True
        if not self.placed.awaited:
            self._limits.stop("queue")
            self._limits.begin("start", now)
        for name in ("max", "total"):
            self._limits.begin(name, now)
        self._state.deadlines(self._limits)
        self._main.granted()

    def ready(self):
        """All required nodes are alive: the phase becomes Ready."""
        self._limits.stop("start")
        self.placed.done()
        self._elastic.first()
        if self._state.doc["job"] is None:
            self._limits.begin("idle", time.monotonic())  # before the phase changes, so that a reader of Ready also reads the deadline
            self._state.deadlines(self._limits)
        self._state.phase(Phase.READY)

    def restart(self, lost):
        """Starts a lost cluster again, as the next attempt if it was in use. Raises End if job.restarts allows no further attempt."""
        message, cause = self._waiting.hopeless.lost(lost)
        ended, self._mail.head_ended = self._mail.head_ended, ""
        if ended and cause == Cause.LOST:
            message = "the head has ended: %s" % ended
        kind = RESTARTS[cause]
        if not self.in_use and self._nodes.unanswered():
            self._ask_again(message)
            return
        self._confirm(message, kind)
        if not self.in_use and kind == "nodeFailure":
            self._fail_start(message)
            return
        if self.in_use:
            if not self._attempts.left(kind):
                raise End(cause, message)
            self._attempts.use(kind)
            self._state.phase(Phase.LOST, kind[0].upper() + kind[1:], message)
            self._attempts.next(cause, message, None)
        self._start_again()

    def _confirm(self, message, kind):
        """Before a restart is spent on it: nodes of an allocation that has ended cannot start again. Raises Detached where the next attempt gets another one."""
        taken = self._nodes.taken()
        if taken == AGAIN and self._attempts.left(kind):
            self._state.note("restart", Phase.LOST, "Requeued", message)
            self._nodes.stop()
            raise Detached()
        if taken in (AGAIN, OVER):
            raise self._failed(message)

    def _failed(self, message):
        """The End of a cluster that cannot start, or cannot start again."""
        return End(Cause.LOST if self.in_use or self._attempts.used("nodeFailure") else Cause.START_FAILED, message)

    def _ask_again(self, message):
        """The batch system's controller is away for a moment: the start is repeated until lifetime.start has passed."""
        self._state.phase(Phase.STARTING, "ControllerAway", message)
        self._waiting.pause(LAZY)
        self._start_again(self._limits.since["start"])
        self._state.phase(Phase.STARTING, "ControllerAway", message)  # until a node reports

    def _fail_start(self, message):
        """Repeats a failed start if that may help, for example after a port was taken meanwhile, or on an overloaded host."""
        self._failed_starts += 1
        if not any(t in message for t in WORTH_ANOTHER_START) or self._failed_starts >= STARTS:
            raise self._failed(message)
        self._state.note("restart", Phase.STARTING, "StartFailed", message)
        self._start_again()

    def _wait_for_admission(self):
        """The queueing system may have taken the nodes back. As before the first admission, a head that answers shows that they are there again: lifetime.queue counts
        until then, lifetime.start from then on."""
        self.is_admitted = False
        self._limits.stop("start")
        self._limits.restart("queue", time.monotonic())
        self._main.released("the cluster was lost, or taken back to its queue")
        self._main.queued()

    def _start_again(self, since=None):
        """Starts all nodes again. since: the moment from which lifetime.start counts on; None: from now."""
        self._elastic.forget()
        self.early.forget()
        self._nodes.stop()
        self.in_use = False
        self._gang.forget()
        # Before there is another token: clients send it to no address of the head that is gone.
        groups = [dict(g, ready=0) for g in self._state.doc["groups"]]
        self._state.change(nodes=[], groups=groups, submissions=[], head=dict(self._state.doc["head"], address="", dashboard="", session="", nodeId="", tokenFile="", prepared=False))
        without_slot = self._nodes.queued and not self._nodes.granted  # known before it is asked for: the queue may grant it at once
        self._nodes.start()
        if without_slot:
            self._main.released("the queue's slot was lost")
            self.wait_for_slot()
        if self._nodes.held:
            self._wait_for_admission()
        if not self.is_admitted:  # a keeper that follows this one takes Starting for a cluster whose limits count, or were taken away
            self._state.phase(Phase.QUEUED, "WaitingForHead", "the head has no address yet")
            return
        self._limits.restart("start", time.monotonic() if since is None else since)
        self._state.phase(Phase.STARTING, "WaitingForHead", "Ray is starting")
