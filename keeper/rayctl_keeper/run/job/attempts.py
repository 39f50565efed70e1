"""Which attempt this is, why it began, and how many restarts are left."""

from rayctl_keeper.driver.figures import TAIL, figures
from rayctl_keeper.state.document import ended_attempt, wall
from rayctl_keeper.state.model import RESTARTS


class Attempts:
    """Counts attempts, and writes `attempts` of the state document."""

    def __init__(self, orders, state, driver_log):
        self._has_job = bool(orders.get("job"))
        self._allowed = (orders.get("job") or {}).get("restarts") or {}
        self._state, self._driver_log = state, driver_log
        self._count(orders.get("attempts") or [])
        self.reason = orders.get("restartReason", "")  # why this attempt began

    def resume(self):
        """Those of a keeper before this one, which the document has, use up restarts."""
        ended = self._state.doc["attempts"]
        self._count(ended)
        if ended:
            self.reason = ended[-1]["cause"]

    def _count(self, ended):
        """Attempts that have ended use up restarts, whichever keeper had them."""
        self._used = {kind: sum(a["cause"] == cause for a in ended) for cause, kind in RESTARTS.items()}

    def left(self, kind):
        """Whether job.restarts allows one more of a kind."""
        allowed = self._allowed.get(kind, 0)
        return allowed < 0 or self._used[kind] < allowed

    def use(self, kind):
        """A restart of a kind is used."""
        self._used[kind] += 1

    def used(self, kind):
        """How many restarts of a kind are used."""
        return self._used[kind]

    def next(self, cause, message, code):
        """Records the attempt that ended and counts on."""
        self.record(cause, message, code)
        self._driver_log.put_aside()
        number = self._state.doc["attempt"] + 1
        if self._has_job:
            self.reason = cause
            self._state.note("restart", "attempt %d" % number, cause, message)
        self._state.change(attempt=number, job=self._state.new_job() if self._has_job else None)

    def record(self, cause, message, code):
        """Adds to `attempts`. The driver's log is complete."""
        doc, driver_ran = self._state.doc, ((self._state.doc["job"] or {}).get("logBegin") or 0) >= 0
        told = figures(self._driver_log.end(TAIL)) if driver_ran else {}
        attempt = dict(ended_attempt(doc, cause, message, code, wall()), **{"figures": told} if told else {})
        self._state.change(attempts=doc["attempts"] + [attempt])
