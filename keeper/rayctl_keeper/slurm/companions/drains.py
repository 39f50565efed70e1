"""The time limits of companion jobs, and when their nodes are drained because Slurm ends the job before the cluster."""

import os
import time

from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.slurm.companions.submission import leaves
from rayctl_keeper.slurm.controller.listing import FAR, moment

OPEN = 1.0  # seconds between reads of a running job's files
WARNING = 60  # seconds before the end of its job that a node is drained
LEAD = 60.0  # seconds, and the grace, before the end of a job by its time limit in which its node is drained; longer than between two looks
LAST = 5.0  # of these, for the job's end


class Drains:
    """warned() may be called from any thread, the others ask Slurm."""

    def __init__(self, orders, run_dir, slurm):
        self._orders, self._run_dir, self._slurm = orders, run_dir, slurm

    def limits(self, most):
        """sbatch's options for the time of a node's job. It needs no more time than the cluster has, which `rayctl extend` may have changed, and gets no more than
        these minutes, its group's partition's (None: no limit); it is warned before its end (companion.py). A job without a limit ends for Slurm after 365 days:
        no partition need allow that."""
        start, end = (float(os.environ.get("SLURM_JOB_%s_TIME" % name) or 0) for name in ("START", "END"))
        end = self._slurm.clusters_end() or end
        left = (end - time.time()) / 60
        if left <= 0 or end - start >= 365 * 86400:
            return ["--signal=B:USR1@%d" % WARNING]  # its limit is as the script has it
        minutes = int(max(1, min(left, most or left)))
        return ["--time=%d" % minutes, "--signal=B:USR1@%d" % min(WARNING, 60 * minutes / 4)]

    def warned(self, job):
        """When a job ends that Slurm has warned, in epoch seconds, and the cause of that end. None: it has not. It looks once a second."""
        if job.state != "PENDING" and not job.warned and time.monotonic() >= job.opened + OPEN:
            job.opened, job.warned = time.monotonic(), self._warning(job.member)
        return job.warned

    def _warning(self, member):
        try:
            with open(leaves(self._run_dir, member.name, member.serial)) as f:
                end, _, cause = f.read().partition(" ")
        except OSError:
            return None
        return (float(end), cause.strip()) if cause.endswith("\n") else None

    def before_time_limit(self, job, found):
        """Has the node drained whose job is near the end of its time, where it is not the cluster's end, too: `rayctl extend` and operators may have moved that."""
        begun, ends, now = moment(found.start), moment(found.end), time.time()
        if job.drain or found.state != "RUNNING" or not ends or ends - begun > FAR or job.member.name == GANG:
            return
        lead = min(LEAD + float(self._orders.get("grace") or 0), (ends - begun) / 2)
        if now >= ends - lead and self._goes_on(ends):
            job.drain = emptied(job, ends, "drained before its time limit")

    def after_warning(self, job):
        """Has the node drained whose job was warned, also where Slurm does not know when the cluster ends; returns whether it does."""
        end, _ = job.warned
        if job.drain or self._goes_on(end) is False:
            return False
        job.drain = emptied(job, end, "drained after Slurm's warning")
        return True

    def _goes_on(self, then):
        """Whether the cluster's own end, with the keeper's warning of it, comes later; None: not known."""
        last = self._slurm.clusters_end()
        return None if last is None else not last or last - float(self._orders["start"].get("warning") or 0) > then


def emptied(job, ends, why):
    """The drain of a job that ends then."""
    return max(time.time(), ends - LAST), "job %s: %s" % (job.id, why)
