"""job.prepare: a program that runs before the driver, once on each cluster."""

from rayctl_keeper.driver import rayjob, runtimeenv
from rayctl_keeper.run.limits.ends import ends_at
from rayctl_keeper.state.document import log_file
from rayctl_keeper.state.model import Cause, Event, JobState


class Prepare:
    """Runs it as a Ray job of its own, which is submitted, watched and stopped as the driver is. Its output begins the attempt's log."""

    def __init__(self, orders, job, cluster, limits, driver, driver_log, nodes, head, state):
        self._orders, self._job, self._cluster, self._limits = orders, job, cluster, limits
        self._driver, self._driver_log, self._nodes, self._head, self._state = driver, driver_log, nodes, head, state

    def run(self, driver_id, commit, reason):
        """Returns when the driver may start. Raises End where it failed, AttemptLost where the cluster broke under it."""
        if not self._needed(driver_id):
            return
        body = rayjob.preparation(self._orders, commit, self._state.doc["attempt"], reason, ends_at(self._limits, self._orders["start"]))
        submission_id = body["submission_id"]
        self._state.change(job=dict(self._state.doc["job"], logFile=log_file(submission_id), logBegin=-1))
        seen = self._state.program(Event.PREPARE)["state"] != JobState.WAITING
        self._state.change_program(Event.PREPARE, submissionId=submission_id)
        self._state.phase(self._state.doc["phase"], "Preparing", "job.prepare runs")
        self._driver.expect(submission_id, Event.PREPARE)
        if not seen:
            self._job.send(body)
        self._cluster.used()
        info = self._job.follow(submission_id, seen)
        end = rayjob.outcome(info, preparing=True)
        if end.cause == Cause.SUBMIT_FAILED:
            end = runtimeenv.explain(end, info, self._nodes.directories(), self._head.dashboard, self._driver_log, self._state.doc["job"]["logFile"])
        self._driver.collect(reachable=True)
        if end.cause != Cause.SUCCEEDED:
            raise end
        self._done(driver_id)

    def _needed(self, driver_id):
        """Not on a cluster that is prepared, nor where a keeper before this one has submitted the driver."""
        if not self._orders["job"].get("prepare") or self._state.doc["head"]["prepared"] or self._job.submitted(self._state.doc["attempt"]):
            return False
        return self._state.program(Event.PREPARE)["state"] != JobState.WAITING or not self._job.known(driver_id)

    def _done(self, driver_id):
        """The driver's output follows in the attempt's log."""
        job, size = self._state.doc["job"], self._driver_log.size
        self._driver_log.goes_before(job["logFile"], job["prepare"]["driverNodeId"], size)
        self._state.change(job=dict(job, logFile=log_file(driver_id), logBegin=size), head=dict(self._state.doc["head"], prepared=True))
        self._state.phase(self._state.doc["phase"])
