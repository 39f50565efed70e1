"""From the keeper of a pod to the record's pod: the result must be saved where it outlives the keeper's, which Kubernetes removes once it has ended."""

import threading

PATIENCE = 120.0  # seconds for the record to fetch the result
HOLD = 20.0  # seconds that a question for the record may be held
LINGER = 2.0  # seconds for whoever saw the end to ask whether it is recorded
RECORDED, SIGNALLED = "recorded", "signalled"  # how the handover may end


class Handover:
    """Whether the record has the result. Shared by the main thread, its signal handler (hence Condition's own lock, which is reentrant) and the
    API's threads."""

    def __init__(self):
        self._changed = threading.Condition()
        self.outcome = None  # RECORDED or SIGNALLED, whichever came first

    def conclude(self, outcome):
        """The first outcome counts."""
        with self._changed:
            self.outcome = self.outcome or outcome
            self._changed.notify_all()

    def wait(self, seconds):
        """Waits for the outcome, and returns it; None if it did not come."""
        with self._changed:
            self._changed.wait_for(lambda: self.outcome, seconds)
            return self.outcome
