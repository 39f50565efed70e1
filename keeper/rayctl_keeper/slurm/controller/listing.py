"""squeue's answers about companion jobs."""

import collections
import time

from rayctl_keeper.slurm.controller import reasons
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.model import AllocationState

FAR = 300 * 86400.0  # seconds: Slurm takes a job without a limit to last a year (slurm/site/check.go, forever)
UNKNOWN = "; the expected start is unknown (jobs without a time limit)"  # as slurm/site/check.go, Expected
FORMAT = "%i|%T|%S|%e|%r"

# A job as squeue has it; start and end are planned ones of a job that waits.
Found = collections.namedtuple("Found", "id state start end reason")
NONE = Found("", "", "", "", "")


def moment(text):
    """Epoch seconds of squeue's text; 0.0: not known."""
    return float(text) if text.isdigit() else 0.0


def planned(job):
    """(UNKNOWN or "", when Slurm expects to start a job in the queue or None)."""
    ahead = job.start - time.time()
    if ahead > FAR:
        return UNKNOWN, None
    return "", wall(job.start) if ahead > 0 else None


def waits(job):
    """The sentence about a job in the queue, and when Slurm expects to start it."""
    unknown, start = planned(job)
    return "job %s: %s%s" % (job.id, job.reason, unknown), start


def explained(job):
    """("queued", Slurm's reason, it in words and when the start is expected, whether the job can never start) of a job in the queue."""
    code, words, never = reasons.explain(job.reason)
    unknown, start = planned(job)
    expected = "; Slurm expects to start it at " + start if start else unknown
    return AllocationState.QUEUED, code, "%s (job %s)%s" % (words, job.id, expected), never


def rows(out):
    """The components of jobs in squeue's output, whose id is that of the job, or it with + and a number."""
    return [Found(*line.strip().split("|", 4)) for line in out.splitlines() if line.count("|") >= 4]


def whole(components, ending):
    """Jobs, each as its worst component: of a heterogeneous job whose node fails Slurm (24.11) ends that component alone. ending are the states of ended jobs."""
    jobs = {}
    for row in components:
        jobs.setdefault(row.id.partition("+")[0], []).append(row)
    worst = [min(parts, key=lambda p: (p.state not in ending, p.state != "PENDING", p.reason == "None")) for parts in jobs.values()]
    return [row._replace(id=number) for number, row in zip(jobs, worst)]
