"""What is kept of the output of jobs that others than the keeper submitted: jobs/<submission id>.log in the run directory. Here, when the node ends on which they ran; where keeper and
nodes share no files, the keeper asks Ray (run/job/outputs.py)."""

import contextlib
import os
import re
import shutil

from rayctl_keeper.node.files.nodelogs import logs_below
from rayctl_keeper.state.document import DRAIN, log_file

DIRECTORY = "jobs"
ONE, ALL = 8 << 20, 64 << 20  # bytes of a job, and of all jobs of a node, with orders of an earlier rayctl
LARGEST = 16 << 20  # bytes of a job where the keeper takes them, in memory
MOST = 1000  # jobs
PREFIX, SUFFIX = log_file("\0").split("\0")
GAP = b"\nrayctl: %d bytes of the output are left out here (lifetime.keepOutput)\n"
UNREAD = b"\nrayctl: a part of the output is left out here: it could not be read in time\n"


def bounds(orders):
    """How many bytes are kept of the output of a job, and of all jobs: of a node, where its supervisor keeps them."""
    lifetime = orders.get("lifetime") or {}
    given = (lifetime.get("keepOutput"), lifetime.get("keepOutputTotal"))
    one, most = (default if size is None else int(size) for size, default in zip(given, (ONE, ALL)))
    return one, most


def bounds_in_memory(orders):
    """The same where the keeper takes the outputs (run/job/outputs.py), each in its memory."""
    one, most = bounds(orders)
    return min(one, LARGEST), most


def ends(most):
    """How many bytes are kept of the beginning and of the end of an output that is longer than most: the end has the error and the result."""
    return most // 4, most - most // 4


def save(directory, target, ours, one, most):
    """Copies the jobs' logs, the newest first, at most so many bytes of each and of all. ours: the beginning of the keeper's submission ids. Raises OSError."""
    keepers = re.compile(re.escape(ours) + r"(-\d+|-prepare-\d+|%s[0-9a-f-]+)" % DRAIN)
    jobs = {path: job_of(path) for path in logs_below(directory)}
    logs = [path for path, job in jobs.items() if job and not keepers.fullmatch(job)]
    for path in sorted(logs, key=os.path.getmtime, reverse=True)[:MOST]:
        most -= copy(path, os.path.join(target, jobs[path] + SUFFIX), min(one, most))


def copy(path, target, most):
    """Copies a log, of a longer one the beginning and the end; an empty one has no copy. Returns how many of its bytes were copied."""
    with open(path, "rb") as log:
        size = os.fstat(log.fileno()).st_size
        if not size or not most:
            return 0
        head, tail = ends(most)
        with created(target) as out:
            shutil.copyfileobj(Part(log, head if size > most else size), out, 1 << 20)
            if size > most:
                out.write(GAP % (size - most))
                log.seek(size - tail)
                shutil.copyfileobj(Part(log, tail), out, 1 << 20)  # it may grow meanwhile
    return min(size, most)


class Part:
    """The next bytes of a file, as a file."""

    def __init__(self, file, size):
        self._file, self._left = file, size

    def read(self, size):
        block = self._file.read(min(size, self._left))
        self._left -= len(block)
        return block


@contextlib.contextmanager
def created(path):
    """A private file to write to, which is there once it is whole."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with os.fdopen(os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        yield out
    os.replace(path + ".tmp", path)


def job_of(path):
    """The submission id of the job whose log this is; "": it is another log."""
    name = os.path.basename(path)
    return name[len(PREFIX):-len(SUFFIX)] if name.startswith(PREFIX) and name.endswith(SUFFIX) else ""
