"""What is kept of a node's own logs when it ends."""

import os
import re
import shutil

from rayctl_keeper.host import ended

LOG_FILE_LIMIT, LOG_NODE_LIMIT = 1 << 20, 20 << 20


def last_line(path):
    """The most informative line of `ray start`'s output, without terminal colours."""
    try:
        with open(path, "rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - 65536))
            text = f.read().decode("utf-8", "replace")
    except OSError:
        return ""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    dead = re.findall(r"(\w+) \[exit code=(-?\d+)\]", text)
    if dead:
        return "; ".join(ended.by_code(name, int(code)) for name, code in dead)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Ray follows its errors with advice; an exception or an ERROR line is more informative.
    telling = [line for line in lines if re.search(r"(Error|Exception)\b.*: |ERROR", line) and "Error should be written to" not in line]
    return (telling or lines or [""])[-1][:500]


def save(directory, target):
    """Copies the end of each of Ray's logs, the driver's first, within the node's limit."""
    logs = sorted(logs_below(directory), key=lambda p: (not os.path.basename(p).startswith("job-driver-"), p))
    copy_ends(logs, target, LOG_FILE_LIMIT, LOG_NODE_LIMIT)


def logs_below(directory):
    """The files of Ray's logs of a node, and the output of `ray start`."""
    for root, dirs, names in os.walk(directory):
        dirs[:] = [d for d in dirs if d not in ("runtime_resources", "sockets", "home") and not os.path.islink(os.path.join(root, d))]
        for name in names:
            path = os.path.join(root, name)
            of_ray = os.sep + "logs" + os.sep in root + os.sep or path == os.path.join(directory, "start.log")
            if of_ray and os.path.isfile(path) and not os.path.islink(path):
                yield path


def copy_ends(paths, directory, one, most):
    """Copies the ends of files into a directory, at most so many bytes of one and of all. Raises OSError."""
    for path in paths:
        with open(path, "rb") as log:
            size = os.fstat(log.fileno()).st_size
            take = min(size, one, most)
            if not take:
                continue
            target = os.path.join(directory, os.path.basename(path))
            os.makedirs(directory, mode=0o700, exist_ok=True)
            log.seek(size - take)
            with os.fdopen(os.open(target + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                shutil.copyfileobj(log, out, 1 << 20)
            os.replace(target + ".tmp", target)
        most -= take
