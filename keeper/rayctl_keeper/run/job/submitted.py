"""Ray's records of the jobs that were submitted to a cluster without a job of its own, kept in its run directory beyond the cluster's end. Their output is kept by the
supervisors of the nodes on which they ran (node/files/joblogs.py), or by outputs.py."""

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

    def __init__(self, name, run_dir, outputs, log):
        """outputs: what takes their output, None where that is not the keeper."""
        self._outputs = outputs
        self._ours, self._path, self._log = name + DRAIN, os.path.join(run_dir, FILE), log
        self._kept = self._found()  # by submission id

    def _found(self):
        """What a keeper before this one has kept in this directory: a head that was lost is not there any more to be asked."""
        try:
            with open(self._path) as f:
                return {j["submission_id"]: j for j in json.load(f)}
        except (OSError, ValueError):
            return {}

    def keep(self, jobs, ends=False):
        """Takes over Ray's records of all jobs. A head that was started again knows none of the head before: what ran there was lost with it. ends: the cluster does."""
        jobs = [j for j in jobs if j.get("submission_id") and not j["submission_id"].startswith(self._ours)]
        if self._outputs:
            self._outputs.want(jobs, running=ends)
        found = {j["submission_id"]: record(j) for j in jobs}
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
