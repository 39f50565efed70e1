"""What the pods show, where the keeper may look at them (kubernetes/nodewatch.py): ends a start that cannot succeed, so that no client needs to watch, and tells
why a head was evicted."""

import time

from rayctl_keeper.state.exits import End
from rayctl_keeper.state.model import Cause, Phase

OWN_FAULT = ("exceeds the", "exceeded its")  # in the kubelet's reason of a pod that used more than it may (Kubernetes 1.34, pkg/kubelet/eviction)


class Hopeless:
    """Looks whether a pod cannot start, until all nodes that must be there are."""

    def __init__(self, watch, state):
        """watch knows which pods cannot start; None: nobody does."""
        self._watch, self._state = watch, state

    def check(self):
        """Raises the End of such a start."""
        if self._watch is None or self._state.doc["phase"] in (Phase.READY, Phase.DRAINING, Phase.GONE):
            return
        found = self._watch.unstartable(time.monotonic())
        if found:
            raise End(Cause.START_FAILED, found)

    def lost(self, lost):
        """The message and the cause of a lost attempt. A pod that used more of the disk than it may is no preemption, after which any number of attempts may
        follow: the next one would use as much."""
        evicted = self._watch and self._watch.evicted()
        if not evicted or lost.cause not in (Cause.LOST, Cause.PREEMPTED):
            return str(lost), lost.cause
        message = "the head's pod %s was evicted: %s" % evicted
        if any(words in evicted[1] for words in OWN_FAULT):
            return message + "; write less there, or raise the limit", Cause.LOST
        return message, Cause.PREEMPTED
