"""The grace of drivers when they are ended before they have: SIGTERM by Ray, some time, SIGKILL by Ray."""

import time

from rayctl_keeper.driver import rayjob
from rayctl_keeper.ray.dashboard import Refused, Slow, Unreachable
from rayctl_keeper.run.end.drain import SHORTEST, drain
from rayctl_keeper.run.head.silence import PATIENT
from rayctl_keeper.state.model import Cause, JobState

POLL = 0.1
RUNNING = (JobState.PENDING, JobState.RUNNING)


class Grace:
    """Stops drivers through Ray's job API."""

    def __init__(self, orders, head, driver, mail, waiting, log):
        self.seconds = float((orders.get("job") or orders).get("grace") or 0)
        self._name = orders["name"]
        self._head, self._driver, self._mail, self._waiting = head, driver, mail, waiting
        self._log = log
        self.drains = self.seconds >= SHORTEST

    def stop_drivers(self, end, others=True):
        """Gives running drivers their grace: the job's own (or job.prepare), and those of what was submitted to the cluster besides. Where the whole
        cluster ends (others), its nodes are drained, too: the submission id of the job that does it is returned, "" for none."""
        grace = self.seconds if end.grace is None else min(self.seconds, end.grace)
        if end.driver is not None or end.cause == Cause.LOST or grace <= 0:
            return ""
        patience = 1.0 if end.grace is not None else PATIENT  # for the request to reach Ray; less where the substrate is about to kill us
        draining = drain(self._head.dashboard, self._name, end, grace, self._log) if others else ""
        self._stop(grace, patience, draining, others)
        return draining

    def stop_own(self):
        """Gives the job's own driver (or job.prepare) its grace."""
        self._stop(self.seconds, PATIENT, "", False)

    def _stop(self, grace, patience, draining, others):
        program, own = self._driver.program(), None
        if program and program["state"] in RUNNING:
            own = program["submissionId"]
        until, running = time.monotonic() + grace + patience, {}
        while not self._mail.now and time.monotonic() < until:
            try:
                if own and own not in running:
                    running[own] = self._ask_to_stop(own)
                    until = time.monotonic() + grace + 1.0  # Ray kills after its own count of the same seconds
                for submission_id in self._submissions((own, draining)) if others else ():
                    running[submission_id] = running.get(submission_id) or self._ask_to_stop(submission_id)
                    until = time.monotonic() + grace + 1.0
                others = False
                for submission_id in running:
                    running[submission_id] = running[submission_id] and self._still_runs(submission_id, submission_id == own)
                if not any(running.values()):
                    break
            except Slow as error:  # retried: the driver is entitled to its grace
                self._log("stopping drivers: %s" % error)
            except (Unreachable, Refused) as error:
                self._log("stopping drivers: %s" % error)
                break
            self._driver.pump()
            self._waiting.rest(POLL)

    def end_drain(self, draining):
        """A draining head that is idle ends by itself: this is what kept it busy."""
        try:
            if draining:
                self._ask_to_stop(draining)
        except Unreachable as error:  # it has ended
            self._log("stopping %s: %s" % (draining, error))

    def _submissions(self, ours):
        """Submission ids of jobs that others sent to the cluster and that run."""
        jobs = self._head.dashboard.json("GET", "/api/jobs/", 5.0)
        return [j["submission_id"] for j in jobs if j.get("submission_id") and j["submission_id"] not in ours and j.get("status") in RUNNING]

    def _ask_to_stop(self, submission_id):
        """SIGTERM by Ray, and SIGKILL after the grace that the nodes were started with. Returns whether there was something to stop."""
        try:
            self._head.dashboard.stop(submission_id)
            return True
        except Refused as refused:  # it has just ended
            self._log("stopping %s: %s" % (submission_id, refused))
            return False

    def _still_runs(self, submission_id, own):
        """Whether Ray has not seen its end; of the job's own driver all is taken over."""
        info = self._head.dashboard.job(submission_id)
        if info is not None and own:
            self._driver.take(info)
        return info is not None and info["status"] not in rayjob.TERMINAL
