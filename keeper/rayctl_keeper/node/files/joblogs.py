"""What is kept of the output of jobs that others than the keeper submitted, when the node ends on which they ran: jobs/<submission id>.log in the run directory."""

import os
import re

from rayctl_keeper.node.files.nodelogs import copy_ends, logs_below
from rayctl_keeper.state.document import DRAIN, log_file

ONE, ALL = 8 << 20, 64 << 20  # bytes of a job, and of all jobs of a node
PREFIX, SUFFIX = log_file("\0").split("\0")


def save(directory, target, ours):
    """Copies the jobs' logs, the newest first until there are ALL bytes. Of a longer one than ONE only the end is kept, and its name ends with .end instead of .log.
    ours: the beginning of the keeper's submission ids. Raises OSError."""
    keepers = re.compile(re.escape(ours) + r"(-\d+|-prepare-\d+|%s[0-9a-f-]+)" % DRAIN)
    jobs = {path: job_of(path) for path in logs_below(directory)}
    logs = [path for path, job in jobs.items() if job and not keepers.fullmatch(job)]
    copy_ends(sorted(logs, key=os.path.getmtime, reverse=True), ONE, ALL, lambda path, cut: os.path.join(target, jobs[path] + (".end" if cut else ".log")))


def job_of(path):
    """The submission id of the job whose log this is; "": it is another log."""
    name = os.path.basename(path)
    return name[len(PREFIX):-len(SUFFIX)] if name.startswith(PREFIX) and name.endswith(SUFFIX) else ""
