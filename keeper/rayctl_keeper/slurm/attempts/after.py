"""Evaluates the files of an attempt that ended without a result: the cause, whether another attempt may follow, and the rest of the driver's output.

The job has it as a module; on the login node its text stands between those of keeper/rayctl_keeper/state/model.py and keeper/slurm_files.py. Python 3.6 or later.
"""

import errno
import glob
import json
import os

try:
    from rayctl_keeper.state.model import RESTARTS, Cause, Phase
except ImportError:  # on the login node, where the text before this one has them
    pass

HISTORY = ("attempt", "attempts", "timeline", "allocations", "formerAllocations")  # of the orders: of the attempts before
AGAIN = "again"  # in an attempt's directory: why the next one follows
SENTENCES = {Cause.PREEMPTED: "%s job was preempted or requeued", Cause.LOST: "a node of %s job failed", Cause.TIME_LIMIT: "%s job reached Slurm's time limit"}
# What slurmstepd writes into the job's output when Slurm ends it (slurm/src/slurmd/slurmstepd/req.c, _handle_signal_container).
TOLD = {"NODE FAILURE": Cause.LOST, "PREEMPTION": Cause.PREEMPTED, "JOB REQUEUE": Cause.PREEMPTED}

# How file systems refuse another name for a file: those that have none (BeeGFS as it is often set up, exFAT, CIFS), and AFS in another directory.
NO_LINKS = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def load(path):
    """A JSON file; {} where there is none."""
    try:
        with open(path) as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def last_state(place):
    """The last state document of an attempt's keeper. One that was killed before its first has left what its orders have of the attempts before."""
    return load(os.path.join(place, "result.json")) or load(os.path.join(place, "state.json")) or begun_with(place)


def begun_with(place):
    """What the first document of an attempt's keeper begins with, as far as another attempt needs it; {} where there are no orders of an attempt after another one."""
    orders = load(os.path.join(place, "orders.json"))
    return {name: orders[name] for name in ("name", "launcher") + HISTORY if name in orders} if orders.get("attempts") else {}


def output_of(place):
    """What `saved` and `salvage` must know of an attempt whose keeper is dead."""
    job = last_state(place).get("job") or {}
    return {"attempt": place, "log": job.get("logFile"), "begin": job.get("logBegin")}


def last_words(run):
    """Slurm's last line on why it ended the current attempt: "*** JOB 2 ON node2 CANCELLED AT ... DUE TO NODE FAILURE, SEE ... ***"."""
    try:
        with open(os.path.join(run, "slurm.out"), errors="replace") as f:
            f.seek(load(os.path.join(run, "current")).get("said") or 0)
            return ([line for line in f if "*** JOB " in line and " DUE TO " in line] or [""])[-1]
    except OSError:
        return ""


def why_again(run, place, state):
    """The cause for which Slurm queues the job again after this attempt, and whether it is certain (else assumed). Slurm gives a requeued job no reason.
    On preemption it ends the keeper; when another node failed it also writes a line into the job's output; when the keeper's own node failed there is no trace."""
    said = load(os.path.join(place, AGAIN)).get("cause")
    if said:
        return said, True
    words = last_words(run)
    for text, cause in TOLD.items():
        if text in words:
            return cause, True
    warned = state.get("phase") in (Phase.DRAINING, Phase.GONE) and state.get("reason", {}).get("code") == Cause.INTERRUPTED
    return (Cause.PREEMPTED, True) if warned else (Cause.LOST, False)


def allowed(run, orders, place, cause):
    """Whether another attempt may follow this one for this cause."""
    limit = ((orders.get("job") or {}).get("restarts") or {}).get(RESTARTS[cause], 0)
    requeued = [load(os.path.join(run, str(n), AGAIN)).get("cause") for n in range(1, int(os.path.basename(place)))]
    state = last_state(place)  # knows those that began in the same job, too, but not those that never had a keeper
    known = [a.get("cause") for a in state.get("attempts") or orders.get("attempts") or [] if a["attempt"] < (state.get("attempt") or orders.get("attempt") or 1)]
    return limit < 0 or max(requeued.count(cause), known.count(cause)) < limit


def again(request):
    """For a client: why the job waits again, and whether an attempt may follow."""
    run = request["run"]
    place = os.path.join(run, load(os.path.join(run, "current")).get("attempt") or "1")
    cause, told = why_again(run, place, last_state(place))
    return {"cause": cause, "told": told, "allowed": allowed(run, load(os.path.join(place, "orders.json")), place, cause), "message": SENTENCES[cause] % "its"}


def saved(request):
    """What there is of the output of a driver whose keeper is dead: its copy, and what the supervisor of the driver's node has saved beyond it
    (node/files/rest.py). Answers with the parts as [file, from which byte on, how many], and whether that is all there was."""
    copy, name = os.path.join(request["attempt"], "driver.log"), os.path.basename(request.get("log") or "")
    size = os.path.getsize(copy) if os.path.exists(copy) else 0
    first = min(size, max(0, request.get("begin") or 0))  # job.prepare's
    for rest in glob.glob(os.path.join(glob.escape(request["attempt"]), "nodes", "*", glob.escape(name) + ".*")) if name else []:
        kind, _, number = rest[rest.rindex("/") + len(name) + 2:].partition("-")
        begin = first + int(number or 0)
        if kind == "whole":
            return {"parts": [[copy, 0, first]] * bool(first) + [[rest, 0, os.path.getsize(rest)]], "whole": True}
        if kind == "from" and begin <= size <= begin + os.path.getsize(rest):
            return {"parts": [[copy, 0, size], [rest, size - begin, begin + os.path.getsize(rest) - size]], "whole": True}
    return {"parts": [[copy, 0, size]], "whole": False}


def salvage(request):
    """Makes the keeper's copy of what `saved` has found. Answers as that would then, and with the length."""
    found = saved(request)
    copy, rest = os.path.join(request["attempt"], "driver.log"), found["parts"][-1][0]
    if rest != copy:
        replace(copy, found["parts"])
        done = "%s.from-%d" % (rest[:rest.rindex(".")], os.path.getsize(copy) - max(0, request.get("begin") or 0))  # empty: whoever comes next sees that there is nothing more
        open(done, "wb").close()
        if rest != done:
            os.unlink(rest)
    size = os.path.getsize(copy) if os.path.exists(copy) else 0
    return {"parts": [[copy, 0, size]], "size": size, "whole": found["whole"]}


def also_called(path, name):
    """Another name for a file, or a copy of it where the file system has no other names. What has the name already stays."""
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno in NO_LINKS and not os.path.exists(name):
            replace(name, [(path, 0, os.path.getsize(path))])
        elif error.errno not in NO_LINKS and error.errno != errno.EEXIST:
            raise


def replace(path, parts):
    """Makes a file of parts of others: (path, from which byte on, how many). It appears whole or not at all."""
    with os.fdopen(os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        for part, begin, size in parts:
            if not os.path.exists(part):
                continue
            with open(part, "rb") as f:
                f.seek(begin)
                while size > 0:
                    block = f.read(min(size, 1 << 20))
                    if not block:
                        break
                    out.write(block)
                    size -= len(block)
        out.flush()
        os.fsync(out.fileno())
    os.replace(path + ".tmp", path)
