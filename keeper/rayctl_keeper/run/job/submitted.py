"""Ray's records of the jobs that were submitted to a cluster without a job of its own, kept in its run directory beyond the cluster's end. Their output is kept by the
supervisors of the nodes on which they ran (node/files/joblogs.py)."""

import json
import os

from rayctl_keeper.driver.rayjob import TERMINAL
from rayctl_keeper.state.document import DRAIN, write_atomically
from rayctl_keeper.state.model import JobState

FILE = "submissions.json"
MOST = 1000  # records; of more jobs the first are dropped
LONGEST = 64 << 10  # bytes of an entrypoint
FIELDS = ("type", "submission_id", "job_id", "status", "message", "error_type", "start_time", "end_time", "driver_exit_code")  # not runtime_env, which has no bound


class Submitted:
    """Written anew when a record has changed."""

    def __init__(self, name, run_dir, log):
        self._ours, self._path, self._log = name + DRAIN, os.path.join(run_dir, FILE), log
        self._kept = {}  # by submission id

    def keep(self, jobs):
        """Takes over Ray's records of all jobs. A head that was started again knows none of the head before: what ran there was lost with it."""
        found = {j["submission_id"]: record(j) for j in jobs if j.get("submission_id") and not j["submission_id"].startswith(self._ours)}
        lost = {i: dict(j, status=JobState.FAILED, message="the head on which it ran was lost") for i, j in self._kept.items() if i not in found and j["status"] not in TERMINAL}
        now = dict(self._kept, **dict(lost, **found))
        now = dict(sorted(now.items(), key=lambda item: item[1]["start_time"] or 0)[-MOST:])
        if now == self._kept:
            return
        try:
            write_atomically(self._path, json.dumps(list(now.values())).encode())
            self._kept = now
        except OSError as error:
            self._log("the records of submitted jobs cannot be written: %s" % error)


def record(job):
    """What is kept of Ray's record."""
    return dict({name: job.get(name) for name in FIELDS}, entrypoint=(job.get("entrypoint") or "")[:LONGEST])
