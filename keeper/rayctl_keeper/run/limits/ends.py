"""The latest time at which a run ends, as known while it runs."""

import os
import time

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
