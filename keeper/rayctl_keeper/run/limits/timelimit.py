"""What follows when lifetime.max has passed, which is an attempt's: the next one, if job.restarts.timeLimit allows it."""

import time

from rayctl_keeper.driver import rayjob
from rayctl_keeper.run.limits.waiting import TOLD
from rayctl_keeper.state.exits import Leaving
from rayctl_keeper.state.model import Cause


class TimeLimit:
    """Ends the attempt that lifetime.max ends where another one follows in the same allocation. On Slurm the job's time limit is that of lifetime.max, so there
    slurm/batch/start.py asks for another job."""

    def __init__(self, orders, nodes, attempts, grace, limits, mail, waiting, driver, state):
        self._orders, self._nodes, self._attempts, self._grace = orders, nodes, attempts, grace
        self._limits, self._mail, self._waiting, self._driver, self._state = limits, mail, waiting, driver, state

    def next_attempt(self, limit):
        """Returns when the next attempt may begin on the same nodes. Raises Leaving where the nodes start again for it: a node that Ray drains does not come back, and
        without a drain Ray Train's workers would not be warned of the end. Raises the End where none may follow."""
        if limit.cause != Cause.MAX or self._orders["start"]["mode"] == "step" or not self._attempts.left("timeLimit"):
            raise limit
        if self._grace.drains and self._driver.is_job and not self._nodes.external:
            self._begin(self._grace.seconds)
            raise Leaving(limit.message, self._grace.seconds, Cause.TIME_LIMIT)
        self._state.phase(self._state.doc["phase"], limit.cause, limit.message)  # see Resumption.was_stopping
        self._state.await_record(TOLD, self._waiting.rest)
        self._grace.stop_drivers(limit, others=False)
        if self._mail.asked is not None or self._waiting.signals() or self._driver.program()["state"] not in rayjob.TERMINAL:
            raise limit  # never two drivers
        self._driver.collect(reachable=True)
        self._attempts.use("timeLimit")
        self._begin(0)
        self._attempts.next(Cause.TIME_LIMIT, limit.message, None)
        self._state.phase(self._state.doc["phase"])

    def _begin(self, seconds):
        """lifetime.max counts anew, in so many seconds."""
        self._limits.extend("max", time.monotonic() + seconds, self._orders["lifetime"]["max"])
        self._state.deadlines(self._limits)
