"""The latest time at which a run ends, as known while it runs."""

import os
import time

from rayctl_keeper.state.model import Cause

NEAR = 180.0  # seconds before the time limit beyond the warning's own: Slurm may warn a minute early
SLACK, SHARE = 60.0, 6  # seconds of the warning for what follows the driver's grace (slurm/script/script.go, EndSlack); no more than this part of a short job's time
NEVER = 364 * 86400  # seconds: Slurm gives a job without a limit an end a year after its start (slurm/src/slurmctld/job_scheduler.c)


def ends_at(limits, start):
    """Returns the earliest of these times in epoch seconds: the ends by lifetime.max and lifetime.total, and the warning before the time limit of a Slurm job.
    None if there is no limit."""
    offset = time.time() - time.monotonic()
    moments = [limits.due(name) + offset for name in ("max", "total") if limits.due(name) is not None]
    end, begin = (float(os.environ.get(name) or 0) for name in ("SLURM_JOB_END_TIME", "SLURM_JOB_START_TIME"))
    if start["mode"] == "step" and end and end - begin < NEVER:
        moments.append(end - notice(start, end - begin))
    return min(moments) if moments else None


def notice(start, span):
    """How many seconds before the time limit of its job, which is so many seconds, a run ends: as long as Slurm's warning, but of a short job most of the time is the
    driver's."""
    warning = float(start.get("warning") or 0)
    return warning - max(0.0, SLACK - span / SHARE) if warning else 0.0


def announced(grace, told):
    """What Slurm announces by its warning: the cause, the time limit in epoch seconds or 0.0, and the seconds from the job's start until then. The signal is the same before
    the time limit and (PreemptParameters=send_user_signal) before a preemption, but the time limit is never far away then. told: what the nodes know of it, see Nodes.warned.
    grace: job.grace in seconds, by which the warning comes earlier."""
    end, begin = (float(os.environ.get(name) or 0) for name in ("SLURM_JOB_END_TIME", "SLURM_JOB_START_TIME"))
    cause, end, span = told or (Cause.TIME_LIMIT, end, end - begin)
    far = end - time.time() > grace + NEAR
    return Cause.PREEMPTED if far else cause, end, span
