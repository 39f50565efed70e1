"""Ends a start that cannot succeed, where the keeper may look at the pods (kubernetes/nodewatch.py): clients, which also see it, need not watch then."""

import time

from rayctl_keeper.state.exits import End
from rayctl_keeper.state.model import Cause, Phase


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
