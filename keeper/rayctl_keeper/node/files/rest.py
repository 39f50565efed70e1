"""What a node's supervisor saves of the driver's output beyond the keeper's copy, for whoever concludes the run of a keeper that was killed."""

import json
import os
import shutil

from rayctl_keeper.host import process
from rayctl_keeper.node.files.nodelogs import logs_below
from rayctl_keeper.state.model import Phase

DRAINS = 3.0  # seconds for the driver to die, and for what it has left in its pipe: Slurm kills all of the node soon
SAME = 4096  # bytes at the end of the keeper's copy that must be in the log at the same place


def drain(markers, spare=()):
    """Kills all of the nodes' processes but those that copy a driver's output (driver/pump.py): they end once they have copied what is in the pipe. Their parent may
    have been killed: the nodes' markers show which processes are meant."""
    found = set(process.descendants(os.getpid())).union(*(process.marked(marker) for marker in markers))
    pumps = [pid for pid in found if any(b"RAYCTL_COMMAND" in program for program in process.arguments_of(pid)[2:3])]
    if pumps:
        left, _ = process.kill_all(markers, list(spare) + pumps, limit=DRAINS)
        if not left:  # who cannot be killed has the pipe open
            process.await_death(pumps, DRAINS)


def save_rest(run_dir, directory, target):
    """Saves target/<log>.from-<N>, the log from the end of the keeper's copy on, or <log>.whole where that is no copy of its beginning (its disk
    was full). Nothing where the driver was on another node, and where a keeper that lives has taken all. Raises OSError."""
    try:
        with open(os.path.join(run_dir, "state.json")) as f:
            state = json.load(f)
    except (FileNotFoundError, ValueError):
        return
    job, phase = state.get("job") or {}, state.get("phase")
    name, before = os.path.basename(job.get("logFile") or ""), max(0, job.get("logBegin") or 0)
    source = log_below(directory, name) if name and phase not in (Phase.GONE, Phase.LOST) else None
    if source is None:
        return
    with open(source, "rb") as log:
        begin = copied(os.path.join(run_dir, "driver.log"), log, before)
        if phase == Phase.DRAINING and begin == os.fstat(log.fileno()).st_size:
            return
        os.makedirs(target, mode=0o700, exist_ok=True)
        rest = os.path.join(target, name + (".whole" if begin is None else ".from-%d" % begin))
        log.seek(begin or 0)
        with os.fdopen(os.open(rest + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            shutil.copyfileobj(log, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(rest + ".tmp", rest)


def log_below(directory, name):
    """The driver's log among Ray's, None if it is not on this node."""
    return next((path for path in logs_below(directory) if os.path.basename(path) == name), None)


def copied(path, log, before):
    """How much of the log the keeper's copy has behind its first bytes, which are job.prepare's; None if that is not the beginning of the log."""
    try:
        with open(path, "rb") as copy:
            size = os.fstat(copy.fileno()).st_size - before
            if size < 0:
                return None
            copy.seek(before + max(0, size - SAME))
            log.seek(max(0, size - SAME))
            end = copy.read()
            return size if log.read(len(end)) == end else None
    except FileNotFoundError:
        return 0
