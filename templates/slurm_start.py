"""What the batch script becomes: `slurm_start.py RUN`, RUN being the run's directory with one directory for each attempt.

It makes the directory of a requeued attempt, waits for the commit, says in RUN/current where the run is, and turns into the keeper.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import time

import keeper
import keeper_exit
from keeper_state import RESERVE, State, ended_attempt, wall, write_atomically

SEED = "seed"  # what the keeper removes at the end of an attempt, kept for the next one
SEEDS = ("token", "secrets.json")
AGAIN = "again"  # in an attempt's directory: why the next one follows
WARNED = keeper_exit.SIGNALLED + "USR1"  # how the keeper's last sentence begins when Slurm warned it, by sbatch's --signal
NEAR = 180.0  # seconds before the time limit beyond the warning's own: Slurm may warn a minute early
# What sbatch says of its tasks' size: srun would hold all components of a job to the first one's, or refuse (26.05). The step takes all.
OF_ITS_TASKS = ("SLURM_CPUS_PER_TASK", "SLURM_TRES_PER_TASK")
# In a heterogeneous job also how many tasks the first component has: srun (24.11 on) would start no more in any other.
OF_FIRST_COMPONENT = ("SLURM_NTASKS", "SLURM_NPROCS")
LEFTOVER = 30.0  # seconds that steps of the attempt before may take to end
LOOK = 0.1  # seconds between looks for the commit: shared file systems tell nobody of changes


def main():
    """Entry point."""
    for name in OF_ITS_TASKS + (OF_FIRST_COMPONENT if os.environ.get("SLURM_HET_SIZE") else ()):
        os.environ.pop(name, None)
    run, restarts = os.path.abspath(sys.argv[1]), int(os.environ.get("RAYCTL_RESTARTS") or 0)
    before = last_begun(run, restarts)
    if not before:
        restarts = 0  # whatever Slurm counts: a node that failed before the script began took nothing
    first, place = os.path.join(run, "1"), os.path.join(run, str(restarts + 1))
    orders = load(os.path.join(first, "orders.json"))
    lease = orders["lifetime"].get("lease") or 120
    if not committed(os.path.join(first, "commit"), lease):
        print("the launch was not committed: nothing is started")
        forget_abandoned(run, lease)
        return 0
    if os.path.exists(os.path.join(place, "claim")):
        print("another job has %s: nothing is started" % place)
        return 0
    try:
        with open(os.path.join(run, SEED if restarts else "1", "token")):
            pass
        failure = begin(run, first, place, orders, restarts, before)
    except OSError as error:
        failure = keeper_exit.End("start-failed", "the run's directory cannot be used: %s: %s" % (error.strerror, error.filename), retryable=False)
        print(failure)
    announce(run, place)
    if failure:
        finish(place, failure)
    else:
        os.environ["RAYCTL_RUN_DIR"] = place
        sys.argv = [sys.argv[0], place]
        keeper.main()
        come_again(run, place, orders)
    if not may_come_back(place):
        shutil.rmtree(os.path.join(run, SEED), ignore_errors=True)
    return 0


def last_begun(run, restarts):
    """The directory of the last attempt that a keeper had, "" if there was none."""
    places = [os.path.join(run, str(n)) for n in range(restarts, 0, -1)]
    return next((place for place in places if os.path.exists(os.path.join(place, "claim"))), "")


def load(path):
    """A JSON file; {} where there is none."""
    try:
        with open(path) as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def committed(path, lease):
    """Waits for the commit, which normally is there; the client may be slower than Slurm, or dead."""
    until = time.monotonic() + lease
    while not os.path.exists(path):
        if time.monotonic() > until:
            return False
        select.select([], [], [], LOOK)
    return True


def forget_abandoned(run, lease):
    """Removes what a dead client has left, as if it had never been. One that lives touches its record."""
    try:
        if time.time() - os.stat(os.path.join(run, "record.json")).st_mtime < lease:
            return
        for name in ["record.json"] + os.listdir(run):  # the record first: without it the rest is nobody's cluster
            if name != "output":
                remove(os.path.join(run, name))
        for directory in (os.path.join(run, "output"), run):
            if os.path.isdir(directory) and not os.listdir(directory):
                os.rmdir(directory)
    except OSError as error:
        print("what the launch left cannot be removed: %s" % error)


def remove(path):
    """A file or a directory with all below it; what is not there is fine."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def begin(run, first, place, orders, restarts, before):
    """Prepares the attempt; returns an End instead of starting one that may not be."""
    waited = time.time() - os.stat(os.path.join(first, "commit")).st_mtime
    lifetime = orders["lifetime"]
    if restarts == 0:
        keep_seed(run, first)
        if lifetime.get("queue") and waited > lifetime["queue"]:
            return keeper_exit.limit_end("queue", lifetime["queue"])
        lifetime["spent"] = max(0.0, waited)
        write_atomically(os.path.join(place, "orders.json"), json.dumps(orders).encode())
        return None
    strip(before)
    end_leftovers()
    state = load(os.path.join(before, "result.json")) or load(os.path.join(before, "state.json"))
    cause = why_again(before, state)
    os.makedirs(place, mode=0o700, exist_ok=True)
    for name in os.listdir(os.path.join(run, SEED)):
        shutil.copy(os.path.join(run, SEED, name), os.path.join(place, name))
    shutil.copy(os.path.join(first, "commit"), os.path.join(place, "commit"))
    ended = int(state.get("attempt") or restarts)
    keep_logs(before, place, ended)
    orders.update(attempt=ended + 1, restartReason=cause, attempts=attempts_of(state, ended, cause))
    lifetime["spent"] = max(0.0, waited)
    write_atomically(os.path.join(place, "orders.json"), json.dumps(orders).encode())
    write_atomically(os.path.join(before, AGAIN), json.dumps({"cause": cause}).encode())
    if not allowed(run, orders, restarts, cause):
        return keeper_exit.End(cause, SENTENCES[cause] % "the")
    return None


def end_leftovers():
    """Of a heterogeneous job Slurm (24.11) requeues only the component whose node failed: in the others the step of the attempt before goes
    on, and srun would be refused ("Duplicate job step id"). Best effort: srun tells."""
    jobs = [os.environ.get("SLURM_JOB_ID_HET_GROUP_%d" % n, "") for n in range(int(os.environ.get("SLURM_HET_SIZE") or 0))]
    steps = [job + ".0" for job in jobs if job]
    if not steps:
        return
    for name in ("TERM", "KILL"):
        subprocess.call(["scancel", "--signal=" + name] + steps, stderr=subprocess.DEVNULL)  # of those that are there
        until = time.monotonic() + LEFTOVER
        while time.monotonic() < until:
            listed = subprocess.run(["squeue", "--noheader", "--steps", "--format=%i", "--jobs=" + ",".join(jobs)], stdout=subprocess.PIPE, check=False)
            if listed.returncode or not any(step.endswith(b".0") for step in listed.stdout.split()):
                return
            select.select([], [], [], 1.0)


LIMITS = {"preempted": "preempted", "lost": "nodeFailure", "time-limit": "timeLimit"}  # the orders' restarts by cause
SENTENCES = {"preempted": "%s job was preempted or requeued", "lost": "a node of %s job failed", "time-limit": "%s job reached Slurm's time limit"}


def allowed(run, orders, attempts, cause):
    """Whether the run may begin again for this cause; the attempt that just ended is already counted."""
    limit = ((orders.get("job") or {}).get("restarts") or {}).get(LIMITS[cause], 0)
    used = [load(os.path.join(run, str(n + 1), AGAIN)).get("cause") for n in range(attempts)]
    return limit < 0 or used.count(cause) <= limit


def come_again(run, place, orders):
    """Slurm warned the keeper of the time limit or (PreemptParameters=send_user_signal) of a preemption, and the keeper has ended all in
    order. Slurm would take that for the end of the job, so we ask for the next attempt."""
    ended = load(os.path.join(place, "result.json")).get("exit", {}).get("message", "")
    if not ended.startswith(WARNED) or not orders.get("job"):
        return
    grace, limit = float(orders["job"].get("grace") or 0), float(os.environ.get("SLURM_JOB_END_TIME") or 0)
    cause = "preempted" if limit and limit - time.time() > grace + NEAR else "time-limit"
    write_atomically(os.path.join(place, AGAIN), json.dumps({"cause": cause}).encode())
    if allowed(run, orders, int(os.path.basename(place)), cause):
        if subprocess.call(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]]) == 0:
            return
    os.unlink(os.path.join(place, AGAIN))


def keep_seed(run, first):
    """Another name for what the next attempt needs too."""
    seed = os.path.join(run, SEED)
    os.makedirs(seed, mode=0o700, exist_ok=True)
    for name in os.listdir(first):
        if name in SEEDS or name.startswith("package-"):
            try:
                os.link(os.path.join(first, name), os.path.join(seed, name))
            except FileExistsError:
                pass


def why_again(before, state):
    """Slurm tells a requeued job nothing. It ends the keeper of a preempted one, and that of a job of which another node died, of which it
    leaves a line in the job's output; of the keeper's own node nobody tells."""
    said = load(os.path.join(before, AGAIN)).get("cause")
    if said:
        return said
    if "NODE FAILURE" in last_words(os.path.join(os.path.dirname(before), "slurm.out")):
        return "lost"
    warned = state.get("phase") in ("Draining", "Gone") and state.get("reason", {}).get("code") == "interrupted"
    return "preempted" if warned else "lost"


def attempts_of(state, ended, cause):
    """All attempts up to the one that ended for this cause. Its keeper did not know why it was told to end, or had no time to say anything."""
    attempts = list(state.get("attempts") or [])
    if not attempts or attempts[-1]["attempt"] != ended:
        attempts.append(ended_attempt(dict(state, attempt=ended), cause, SENTENCES[cause] % "its"))
    elif attempts[-1]["message"].startswith(keeper_exit.SIGNALLED):
        attempts[-1] = dict(attempts[-1], cause=cause, message=SENTENCES[cause] % "its")
    return attempts


def keep_logs(before, place, ended):
    """Other names for the output of earlier attempts: the next keeper has it all."""
    for name in os.listdir(before):
        to = os.path.join(place, "driver-%d.log" % ended if name == "driver.log" else name)
        if name.startswith("driver") and name.endswith(".log") and not os.path.exists(to):
            os.link(os.path.join(before, name), to)


def last_words(path):
    """Slurm's last line on why it ended the job: "*** JOB 2 ON node2 CANCELLED AT ... DUE TO NODE FAILURE, SEE ... ***"."""
    try:
        with open(path, errors="replace") as f:
            return ([line for line in f if "*** JOB " in line and " DUE TO " in line] or [""])[-1]
    except OSError:
        return ""


def announce(run, place):
    """Where the run is, for clients."""
    write_atomically(os.path.join(run, "current"), json.dumps({
        "attempt": os.path.basename(place), "job": int(os.environ.get("SLURM_JOB_ID") or 0), "at": wall(),
        "node": os.environ.get("SLURMD_NODENAME", ""), "start": int(os.environ.get("SLURM_JOB_START_TIME") or 0)}).encode())


def finish(place, end):
    """The result of an attempt that was not begun."""
    os.makedirs(place, mode=0o700, exist_ok=True)
    orders = load(os.path.join(place, "orders.json")) or load(os.path.join(os.path.dirname(place), "1", "orders.json"))
    log = keeper.opened_log(place)
    state = State(orders, place, log)
    strip(place)
    state.final(os.path.join(place, "result.json"), end.document(), {"bytes": 0, "missing": []})


def strip(place):
    """Removes from an attempt's directory what its keeper removes at the end, unless it was killed."""
    for name in os.listdir(place):
        if name in SEEDS or name == RESERVE or name.startswith("package-") or name.endswith(".tmp"):
            remove(os.path.join(place, name))


def may_come_back(place):
    """Whether Slurm may start the job again: it ended it, by a signal, or was asked to."""
    result = load(os.path.join(place, "result.json"))
    if os.path.exists(os.path.join(place, AGAIN)):
        return True
    return not result or result.get("exit", {}).get("message", "").startswith(keeper_exit.SIGNALLED + "TERM")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the API's threads may be in the middle of an answer nobody waits for
