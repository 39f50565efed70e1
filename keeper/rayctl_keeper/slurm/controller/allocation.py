"""What Slurm's controller has of the job that this keeper runs in."""

import os
import re
import subprocess

from rayctl_keeper.host import process
from rayctl_keeper.run.nodes.common import AGAIN, OVER, RUNS
from rayctl_keeper.slurm.controller import commands
from rayctl_keeper.slurm.controller.commands import unanswered
from rayctl_keeper.state.model import Cause

PATIENCE = 30.0  # seconds for an answer; the command itself gives up earlier where nobody listens
QUICK = 5.0  # seconds for an answer of which the driver's grace waits
ENDS = "%e|%S|%l"  # of squeue: end, start, time limit
SLACK = 30.0  # seconds by which an end before the time limit is that of a preemption
LAUNCH = "Task launch"  # srun's words about a node, which may have the same reason ("Connection refused")
HOLDS = ("RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "STOPPED", "SIGNALING")  # states in which a job has its nodes


def shown(patience):
    """The fields of this job as scontrol shows them, {} if the controller does not answer within so many seconds or has no such job."""
    job = os.environ.get("SLURM_JOB_ID", "")
    try:
        code, out, _ = process.run(("scontrol", "show", "job", job), commands.environment(), patience)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {} if code else fields(out.decode("utf-8", "replace"), job)


def fields(text, job):
    """Of one job in the answer, which has all components of a heterogeneous one. What users write, such as a comment, comes last: the first of a name counts."""
    for record in text.split("\n\n"):
        if record.lstrip().startswith("JobId=%s " % job):
            found = {}
            for name, value in re.findall(r"(\w+)=(\S+)", record):
                found.setdefault(name, value)
            return found
    return {}


def without_answer(words):
    """Whether srun failed because it did not reach the controller: it has no step then, and a node that it cannot reach is another failure."""
    return unanswered(words) and LAUNCH not in words


def standing(patience=PATIENCE):
    """Whether the job still has the nodes with which Slurm has started it this time: RUNS, AGAIN (Slurm has queued it again, or started it elsewhere since), OVER (it
    ends, or has), or "" if that is not known."""
    job = shown(patience)
    restarts = job.get("Restarts", "")
    if not restarts.isdigit():
        return ""
    if not commands.inside() and int(restarts) > int(os.environ.get("RAYCTL_RESTARTS") or 0):
        return AGAIN
    return RUNS if job.get("JobState") in HOLDS else OVER


def warned():
    """For the keeper, which Slurm has warned: see warning. None: not known."""
    try:
        code, out, _ = process.run(("squeue", "--noheader", "--format=" + ENDS, "--jobs=" + os.environ.get("SLURM_JOB_ID", "")), commands.environment(), QUICK)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if code else warning(out.decode("utf-8", "replace"))


def warning(answer):
    """Of squeue's lines about a job's components: the cause of its end, which a preemption moves to before its time limit; when that is, in epoch seconds; and the seconds from
    the start until then. None: not known."""
    found = [line.strip().split("|") for line in answer.splitlines()]
    found = [(float(end), float(start), span(limit)) for end, start, limit in found if end.isdigit() and start.isdigit()]
    if not found:
        return None
    end, start, _ = min(found)
    return Cause.PREEMPTED if any(end < start + limit - SLACK for end, start, limit in found) else Cause.TIME_LIMIT, end, end - start


def span(limit):
    """Seconds of a time limit as squeue writes it: [days-][hours:]minutes:seconds, or a word for none."""
    days, _, clock = limit.rpartition("-")
    if not clock.replace(":", "").isdigit():
        return float("inf")
    seconds = 0
    for part in clock.split(":"):
        seconds = 60 * seconds + int(part)
    return 86400.0 * int(days or 0) + seconds
