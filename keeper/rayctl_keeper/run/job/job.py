"""The job of the present attempt: submitted once, followed until Ray reports its end."""

import os

from rayctl_keeper.driver import rayjob
from rayctl_keeper.ray.dashboard import Refused, Unreachable
from rayctl_keeper.state.exits import AttemptLost
from rayctl_keeper.state.model import JobState

RECORD = 10.0  # seconds that the record's pod gets to read which head the job is submitted to; it may not run yet


class Job:
    """Submits the job to the head, and polls its state."""

    def __init__(self, run_dir, head, driver, packages, resumption, mail, waiting, state, log):
        self._run_dir, self._head, self._driver, self._packages, self._resumption = run_dir, head, driver, packages, resumption
        self._mail, self._waiting, self._state, self._log = mail, waiting, state, log

    def submit(self, body):
        """Submits the job, unless Ray has it already: a head that is slow may have it. Returns whether a previous keeper submitted it. Raises AttemptLost."""
        if self.submitted(self._state.doc["attempt"]):
            return True
        self.send(body)
        return False

    def known(self, submission_id):
        """Whether the head has a submission: it is asked until it responds."""
        dashboard, silence = self._head.dashboard, self._head.silence()
        return rayjob.patiently(lambda: rayjob.knows(dashboard, submission_id, silence.patience()), silence, self._waiting.pause)

    def send(self, body):
        """Uploads packages and submits, unless the head has the submission."""
        dashboard, silence, pause = self._head.dashboard, self._head.silence(), self._waiting.pause
        if self.known(body["submission_id"]):
            return
        while True:
            missing = rayjob.patiently(lambda: rayjob.upload(dashboard, self._run_dir, self._mail.packages()), silence, pause)
            if not missing:
                break
            self._packages.wait_for(missing)
        # Which head it is. A keeper that follows this one and does not know would submit the job to the next head, too, if this head is lost with this keeper.
        self._state.await_record(RECORD, self._waiting.pause)
        rayjob.submit(dashboard, body, silence, pause, self._head.is_same)

    def submitted(self, number):
        """Whether a keeper before this one submitted the attempt: it is not submitted again to a head that does not have it, which must be another head."""
        if self._state.doc["job"]["state"] != JobState.WAITING:
            return True
        try:
            with open(os.path.join(self._run_dir, "submitted")) as f:
                return number <= int(f.read())
        except (OSError, ValueError):
            return False

    def follow(self, submission_id, seen):
        """Waits until Ray's record of the job is final, and returns it. `seen`: Ray has had the job before."""
        silence = self._head.silence()
        while True:
            try:
                info = self._head.dashboard.job(submission_id, silence.patience())
                silence.broken()
                if info is None:
                    if seen:
                        raise AttemptLost("the head was restarted and does not know the job any more")
                else:
                    seen = True
                    self._driver.take(info)
                    if info["status"] in rayjob.TERMINAL:
                        self._resumption.was_stopping(info)
                        return info
                self._head.look()
            except Refused as refused:
                self._log("asking for the job: %s" % refused)
            except Unreachable as error:
                silence.goes_on(error)
            self._driver.pump()
            self._waiting.pause(self._driver.pace(silent=silence.since is not None))
