"""The job of the present attempt: submitted once, followed until Ray reports its end."""

import os

from rayctl_keeper.driver import rayjob
from rayctl_keeper.ray.dashboard import Refused, Unreachable
from rayctl_keeper.state.exits import AttemptLost


class Job:
    """Submits the job to the head, and polls its state."""

    def __init__(self, run_dir, head, driver, packages, mail, waiting, state, log):
        self._run_dir, self._head, self._driver, self._packages = run_dir, head, driver, packages
        self._mail, self._waiting, self._state, self._log = mail, waiting, state, log

    def submit(self, body):
        """Uploads packages and submits the job, unless Ray has it already: the head is asked until it responds, because one that is slow may have
        it. Returns whether a previous keeper submitted it. Raises AttemptLost."""
        if self.submitted(self._state.doc["attempt"]):
            return True
        dashboard, silence, pause = self._head.dashboard, self._head.silence(), self._waiting.pause
        if rayjob.patiently(lambda: rayjob.knows(dashboard, body["submission_id"], silence.patience()), silence, pause):
            return False
        while True:
            missing = rayjob.patiently(lambda: rayjob.upload(dashboard, self._run_dir, self._mail.packages()), silence, pause)
            if not missing:
                break
            self._packages.wait_for(missing)
        rayjob.submit(dashboard, body, silence, pause)
        return False

    def submitted(self, number):
        """Whether a keeper before this one submitted the attempt: it is not submitted again to a head that does not have it, which must be another head."""
        if self._state.doc["job"]["state"] != "WAITING":
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
                        return info
                self._head.look()
            except Refused as refused:
                self._log("asking for the job: %s" % refused)
            except Unreachable as error:
                silence.goes_on(error)
            self._driver.pump()
            self._waiting.pause(self._driver.pace(silent=silence.since is not None))
