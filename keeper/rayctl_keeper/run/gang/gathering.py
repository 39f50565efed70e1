"""Waits until the nodes that must be there are alive in Ray, and watches meanwhile that the head is still the one that greeted."""

import socket

from rayctl_keeper.ray.dashboard import Refused, Unreachable
from rayctl_keeper.run.limits.waiting import LAZY, POLL
from rayctl_keeper.state.exits import End
from rayctl_keeper.state.model import Cause, Phase, Reason


class Gathering:
    """Asks the head for its nodes again and again."""

    def __init__(self, nodes, head, gang, main, early, cluster, resumption, waiting, state, log):
        self._nodes, self._head, self._gang, self._main, self._early = nodes, head, gang, main, early
        self._cluster, self._resumption, self._waiting, self._state, self._log = cluster, resumption, waiting, state, log
        self._vacated = None  # the session that was to be taken away when the head's name had no address

    def wait_for_head(self):
        """With an early head: until it is ALIVE in Ray. The gang is asked for then."""
        self._head.connect()
        while not self._state.doc["head"]["nodeId"] or not (self._resumption.resumed or self._settled()):
            self._count()
            self._waiting.pause(POLL)
        self._early.begin()

    def gather(self):
        """Until all nodes of the gang are ALIVE in Ray; first, with an early head, until they are granted, which may take days."""
        silence = self._early.active and self._head.silence()
        while self._early.queued:
            try:
                self._head.look(silence.patience())
                silence.broken()
            except Refused as refused:
                self._log("looking for nodes: %s" % refused)
            except Unreachable as error:
                silence.goes_on(error)
            self._waiting.pause(LAZY)
        self._head.connect()
        while not self._gang.complete:
            if not self._count() or not (self._early.active or self._settled()):
                self._waiting.pause(POLL)
        if not self._early.active or self._state.doc["phase"] != Phase.READY:  # else it is noted already
            self._cluster.ready()

    def _count(self):
        """Asks the head for its nodes; returns whether all required nodes are alive."""
        dashboard = self._head.dashboard or self._head.connect()
        if dashboard is None:
            return False
        try:
            if self._gang.session is None:
                self._greet(dashboard)
            return self._gang.count(self._gang.listed(dashboard, 2.0))
        except Unreachable as error:
            self._placed(error)
        except Refused as refused:
            if refused.status in (401, 403):
                raise End(Cause.START_FAILED, "the head's dashboard refuses the cluster's token: %s" % refused)
        return False

    def _placed(self, error):
        """A head whose name has an address is a pod that runs on a node, also if it does not answer yet (Kubernetes, "DNS for Services and Pods"). Of a head that is taken
        away the name has its address for some time: what counts is one after there was none."""
        leaving = self._state.doc["head"].get("leaving")
        if isinstance(error.__context__, socket.gaierror):
            self._vacated = leaving
        if leaving and self._vacated != leaving:
            return
        if self._state.doc["phase"] == Phase.QUEUED and not self._early.queued and not isinstance(error.__context__, socket.gaierror):
            self._state.phase(Phase.PROVISIONING, "WaitingForHead", "the head does not answer yet")
            self._main.granted()
        if self._state.doc["phase"] == Phase.PROVISIONING:  # a mesh does it that takes no connections from outside: kuberay/observe/mesh.go
            resets = isinstance(error.__context__, ConnectionResetError)
            self._state.phase(Phase.PROVISIONING, *((Reason.HEAD_RESETS, "the head resets connections") if resets else ("WaitingForHead", "the head does not answer yet")))

    def _greet(self, dashboard):
        """The head's first answer; on an external cluster it means admission."""
        self._gang.greet(dashboard.version())
        if self._nodes.external:
            self._cluster.admitted()
            self._early.admitted()
            self._state.phase(Phase.STARTING, "WaitingForNodes", "the head answers")

    def _settled(self):
        """Whether the head is still the one that greeted. Nothing has run on a head that was restarted while its nodes started, so the next is as good: it is greeted,
        and its nodes are counted anew."""
        try:
            answer = self._head.dashboard.version()
            if not self._gang.is_another(answer):
                return True
            self._log("the head was restarted before all nodes were there")
            self._state.change(head=dict(self._state.doc["head"], nodeId=""))
            self._gang.greet(answer)
        except (Unreachable, Refused):
            pass  # _count() finds the state of the node
        self._gang.complete = False
        return False
