"""The head of the present round: its dashboard, whether it is still the same head, and what else is seen of it when it does not answer."""

import time

from rayctl_keeper.ray.dashboard import Dashboard
from rayctl_keeper.run.head.silence import UNSEEN, Silence, gcs_lives

LOOK = 3.0  # between looks at the nodes


class Head:
    """Gives access to the head's dashboard, and watches whether the head is still there."""

    def __init__(self, orders, nodes, gang, driver, mail, state):
        limit = (orders.get("lifetime") or {}).get("silence")
        self._limit = UNSEEN if limit is None else float(limit)
        self._nodes, self._gang, self._driver = nodes, gang, driver
        self._mail, self._state = mail, state
        self._next_look = 0.0
        self.dashboard = None  # before the nodes have addresses

    def connect(self):
        """The dashboard of the nodes as they are now, None as long as it is not known where it listens; a request to end the cluster may cut its requests."""
        self.dashboard = self._mail.aborts = Dashboard(self._nodes.dashboard, self._nodes.token) if self._nodes.find_head() else None
        return self.dashboard

    def is_same(self, timeout):
        """Raises AttemptLost if another head answers than the one that greeted."""
        self._gang.same_head(self.dashboard.version(timeout))

    def look(self, timeout=2.0):
        """Now and then: is it still the same head, which nodes are there."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK
            self.is_same(timeout)
            self.look_at_nodes(timeout)

    def look_at_nodes(self, timeout):
        """Which nodes are there, now."""
        self._gang.changes(self._gang.listed(self.dashboard, timeout))

    def silence(self):
        """For a series of questions that it may stop answering."""
        return Silence(self.dashboard, self._state, self.signs, self._limit)

    def signs(self):
        """What is seen alive of a head whose dashboard does not answer, and whether the head is known to have ended. When the driver has ended, Ray is
        not waited for as long as it lives: only the dashboard has the exit code."""
        gcs = gcs_lives(self._nodes.gcs)
        if self._driver.ended:
            return [], gcs is False
        # Where the GCS is gone a living supervisor ends Ray and reports that. One that was killed in a Slurm step reports nothing, and counts as running there.
        supervisor = gcs is not False and self._nodes.head_runs()
        seen = (("the driver's process", self._driver.runs), ("the head's supervisor", supervisor), ("the GCS", gcs))
        return [name for name, alive in seen if alive], gcs is False
