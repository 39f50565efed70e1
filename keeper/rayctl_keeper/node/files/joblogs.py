"""What is kept of the output of jobs that others than the keeper submitted, when the node ends on which they ran: jobs/<submission id>.log in the run directory."""

import os
import re
import shutil

from rayctl_keeper.state.document import log_file

ONE, ALL = 8 << 20, 64 << 20  # bytes of a job, and of all jobs of a node
PREFIX, SUFFIX = log_file("\0").split("\0")


def save(directory, target, ours):
    """Copies the jobs' logs, the newest first until there are ALL bytes. Of a longer one than ONE only the end is kept, and its name ends with .end instead of .log.
    ours: the beginning of the keeper's submission ids. Raises OSError."""
    keepers, left = re.compile(re.escape(ours) + r"-(\d+|prepare-\d+|drain-[0-9a-f-]+)"), ALL
    for path in sorted(logs_below(directory), key=os.path.getmtime, reverse=True):
        job = os.path.basename(path)[len(PREFIX):-len(SUFFIX)]
        if keepers.fullmatch(job):
            continue
        with open(path, "rb") as log:
            size = os.fstat(log.fileno()).st_size
            take = min(size, ONE, left)
            if not take:
                continue
            os.makedirs(target, mode=0o700, exist_ok=True)
            copy = os.path.join(target, job + (".log" if take == size else ".end"))
            log.seek(size - take)
            with os.fdopen(os.open(copy + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                shutil.copyfileobj(log, out, 1 << 20)
            os.replace(copy + ".tmp", copy)
        left -= take


def logs_below(directory):
    """The drivers' logs among Ray's."""
    for root, dirs, names in os.walk(directory):
        dirs[:] = [d for d in dirs if not os.path.islink(os.path.join(root, d))]
        if os.path.basename(root) == "logs":
            for name in names:
                path = os.path.join(root, name)
                if name.startswith(PREFIX) and name.endswith(SUFFIX) and not os.path.islink(path) and os.path.isfile(path):
                    yield path
