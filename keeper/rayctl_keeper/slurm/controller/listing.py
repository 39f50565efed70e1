"""squeue's answers about companion jobs."""

import collections
import time

from rayctl_keeper.slurm.controller import reasons
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.model import AllocationState

FAR = 300 * 86400.0  # seconds: a later start is no estimate, because Slurm assumes a year for each job without a time limit (slurm/site/check.go, forever)
UNKNOWN = "; the expected start is unknown (jobs without a time limit)"  # as slurm/site/check.go, Expected
FORMAT = "%i|%T|%S|%e|%r"

# A job as squeue prints it; start and end of a job in the queue are Slurm's estimates.
Found = collections.namedtuple("Found", "id state start end reason")
NONE = Found("", "", "", "", "")


def moment(text):
    """Epoch seconds of a time that squeue prints; 0.0 if squeue does not know the time."""
    return float(text) if text.isdigit() else 0.0


def planned(job):
    """(note, start) of a job in the queue: UNKNOWN or "", and the time at which Slurm expects to start the job or None."""
    ahead = job.start - time.time()
    if ahead > FAR:
        return UNKNOWN, None
    return "", wall(job.start) if ahead > 0 else None


def waits(job):
    """The sentence about a job in the queue, and when Slurm expects to start it."""
    unknown, start = planned(job)
    return "job %s: %s%s" % (job.id, job.reason, unknown), start


def explained(job):
    """(state, code, sentence, never) of a job in the queue: "queued", Slurm's reason, a sentence with the reason and the expected start, and whether the job can
    never start."""
    code, words, never = reasons.explain(job.reason)
    unknown, start = planned(job)
    expected = "; Slurm expects to start it at " + start if start else unknown
    return AllocationState.QUEUED, code, "%s (job %s)%s" % (words, job.id, expected), never


def rows(out):
    """The components of jobs in squeue's output. A component's id is the job's id, in a heterogeneous job followed by + and a number."""
    return [Found(*line.strip().split("|", 4)) for line in out.splitlines() if line.count("|") >= 4]


def whole(components, ending):
    """One entry for each job: its worst component. If a node of a heterogeneous job fails, Slurm (24.11) ends only the component of that node, and the others still
    run. ending: the states of ended jobs."""
    jobs = {}
    for row in components:
        jobs.setdefault(row.id.partition("+")[0], []).append(row)
    worst = [min(parts, key=lambda p: (p.state not in ending, p.state != "PENDING", p.reason == "None")) for parts in jobs.values()]
    return [row._replace(id=number) for number, row in zip(jobs, worst)]
