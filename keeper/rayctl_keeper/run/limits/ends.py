"""The latest time at which a run ends, as known while it runs."""

import os
import time

from rayctl_keeper.state.model import Cause

NEAR = 180.0  # seconds before the time limit beyond the warning's own: Slurm may warn a minute early
NEVER = 364 * 86400  # seconds: Slurm gives a job without a limit an end a year after its start (slurm/src/slurmctld/job_scheduler.c)


def ends_at(limits, start):
    """Returns the earliest of these times in epoch seconds: the ends by lifetime.max and lifetime.total, and the warning before the time limit of a Slurm job.
    None if there is no limit."""
    offset = time.time() - time.monotonic()
    moments = [limits.due(name) + offset for name in ("max", "total") if limits.due(name) is not None]
    end, begin = (float(os.environ.get(name) or 0) for name in ("SLURM_JOB_END_TIME", "SLURM_JOB_START_TIME"))
    if start["mode"] == "step" and end and end - begin < NEVER:
        moments.append(end - float(start.get("warning") or 0))
    return min(moments) if moments else None


def warned_of(grace):
    """What Slurm announces by its warning: (cause, sentence). The signal is the same before the time limit and (PreemptParameters=send_user_signal) before a preemption,
    but the time limit is never far away then. grace: job.grace in seconds, by which the warning comes earlier."""
    limit = float(os.environ.get("SLURM_JOB_END_TIME") or 0)
    if not limit:
        return Cause.TIME_LIMIT, "the time limit of its nodes is near, or they are preempted for another job"
    if limit - time.time() > grace + NEAR:
        return Cause.PREEMPTED, "its nodes are preempted for another job"
    return Cause.TIME_LIMIT, "the time limit of its nodes is near"
