"""What is kept of a node's own logs when it ends."""

import os
import re

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
        return "; ".join("its %s ended with exit code %s" % found for found in dead)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Ray follows its errors with advice; an exception or an ERROR line is more informative.
    telling = [line for line in lines if re.search(r"(Error|Exception)\b.*: |ERROR", line) and "Error should be written to" not in line]
    return (telling or lines or [""])[-1][:500]


def save(directory, target):
    """Copies the end of each of Ray's logs, the driver's first, within the node's limit."""
    logs = []
    for root, dirs, names in os.walk(directory):
        dirs[:] = [d for d in dirs if d not in ("runtime_resources", "sockets", "home") and not os.path.islink(os.path.join(root, d))]
        if os.path.basename(root) == "logs" or os.sep + "logs" + os.sep in root + os.sep:
            logs += [os.path.join(root, n) for n in names]
    logs.append(os.path.join(directory, "start.log"))
    budget = LOG_NODE_LIMIT
    for path in sorted(logs, key=lambda p: (not os.path.basename(p).startswith("job-driver-"), p)):
        if os.path.islink(path) or not os.path.isfile(path) or budget <= 0:
            continue
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            take = min(size, LOG_FILE_LIMIT, budget)
            if not take:
                continue
            f.seek(size - take)
            os.makedirs(target, mode=0o700, exist_ok=True)
            copy = os.path.join(target, os.path.basename(path))
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(f.read(take))
        budget -= take
