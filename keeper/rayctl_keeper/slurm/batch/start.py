"""The program that the batch script executes: `keeper.pyz slurm-start RUN NONCE`. RUN is the run's directory, with one directory for each attempt.

It makes the directory of a requeued attempt, waits for the commit, writes where the attempt runs into RUN/current, and becomes the keeper.
"""

import json
import os
import select
import shutil
import signal
import sys
import threading
import time

from rayctl_keeper.run import keeper
from rayctl_keeper.run.nodes.common import AGAIN as QUEUED_AGAIN
from rayctl_keeper.slurm.attempts.account import SEED, SEEDS, allocations_of, attempts_of, end_leftovers, remove, requeued_at, share_result, strip, timeline_of, write_result
from rayctl_keeper.slurm.attempts.after import AGAIN, SENTENCES, allowed, also_called, last_state, last_words, load, output_of, salvage, why_again
from rayctl_keeper.slurm.attempts.tenure import Tenure, take_over
from rayctl_keeper.slurm.companions.companions import Companions, end_all
from rayctl_keeper.slurm.controller import allocation, commands
from rayctl_keeper.state import model
from rayctl_keeper.state.conclude import begun
from rayctl_keeper.state.document import State, wall, write_atomically
from rayctl_keeper.state.exits import End, limit_end
from rayctl_keeper.state.model import Cause, Phase

WARNED = model.SIGNALLED + "USR1"  # the beginning of the keeper's last sentence if Slurm warned the keeper, by sbatch's --signal
LOOK = 0.1  # seconds between queries of the commit file: shared file systems do not report changes


def main(arguments):
    """Entry point."""
    code = begin_attempt(os.path.abspath(arguments[0]), arguments[1])
    sys.stdout.flush()
    os._exit(code)  # without waiting for the API's threads, which may be sending an answer that nobody reads


def begin_attempt(run, nonce):
    """Runs one attempt, if one may begin; returns the exit code."""
    if commands.inside():
        commands.forget_step()
        os.environ["RAYCTL_RESTARTS"] = "0"  # the job is an allocation of the user: its restarts are not restarts of the run
    for name in commands.OF_ITS_TASKS + (commands.OF_FIRST_COMPONENT if os.environ.get("SLURM_HET_SIZE") else ()):
        os.environ.pop(name, None)
    restarts = int(os.environ.get("RAYCTL_RESTARTS") or 0)
    if load(os.path.join(run, "record.json")).get("nonce") != nonce:
        print("the launch of this job was cancelled: nothing is started")
        return 0
    keep_id(run)
    before = last_begun(run, restarts)
    if not before:
        restarts = 0  # Slurm also counts starts in which a node failed before this program began; no attempt was lost with these
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
    if later_begun(run, restarts + 1):
        return 0
    if restarts and not os.path.isdir(os.path.join(run, SEED)):
        print("the run has ended: nothing is started")  # Slurm requeued the job when its keeper had written the result
        return 0
    signals = []
    try:
        if restarts:
            take_over(run, before, restarts + 1)
            if not may_follow(run, before):
                return 0
        with open(os.path.join(run, SEED if restarts else "1", "token")):
            pass
        failure = begin(run, first, place, orders, restarts, before)
    except OSError as error:
        failure = End(Cause.START_FAILED, "the run's directory cannot be used: %s: %s" % (error.strerror, error.filename), retryable=False)
        print(failure)
    if later_begun(run, restarts + 1):  # a file may have been waited for until now
        return 0
    announce(run, place)
    if failure:
        finish(place, failure)
    else:
        os.environ["RAYCTL_RUN_DIR"] = place
        if orders.get("job") and not allowed(run, orders, place, Cause.LOST):
            threading.Thread(target=commands.run_once, daemon=True).start()  # the controller may be slow to answer

        def told(number):
            signals.append(number)
            give_up(run, place, orders, number)
        tenure = Tenure(run, place)
        keeper.keep(place, told, companions=Companions, allocation=tenure)
        tenure.release()
        if tenure.superseded():
            return 0  # another attempt has taken over, and does the rest
        come_again(run, place, orders, tenure)
    if commands.inside() or not may_come_back(place, signals):
        shutil.rmtree(os.path.join(run, SEED), ignore_errors=True)
        strip_attempts(run, 1, restarts)  # a keeper that was superseded meanwhile may have ended in the middle of a write
        withdraw(place)
    return 0


def last_begun(run, restarts):
    """The directory of the last attempt that a keeper had, "" if there was none."""
    before = [number for number in claimed(run) if number <= restarts]
    return os.path.join(run, str(max(before))) if before else ""


def later_begun(run, number):
    """Whether a keeper has an attempt after this one: this host was cut off from the files, and Slurm has started the job elsewhere meanwhile."""
    later = [other for other in claimed(run) if other > number]
    for other in later:
        print("attempt %d of the run has begun: nothing is started" % other)
    return bool(later)


def claimed(run):
    """The numbers of the attempts that a keeper has, or had."""
    return [int(name) for name in os.listdir(run) if name.isdigit() and os.path.exists(os.path.join(run, name, "claim"))]


def keep_id(run):
    """Writes the job's id for clients, unless the client that called sbatch has written it already."""
    path, number = os.path.join(run, "job"), os.environ.get("SLURM_JOB_ID", "")
    try:
        if number and not os.path.exists(path):
            write_atomically(path, number.encode())
    except OSError as error:
        print("the job's id cannot be written: %s" % error)


def committed(path, lease):
    """Waits for the commit; returns whether it came in time. Normally it is there already, but Slurm may be faster than the client, and the client may be dead."""
    until = time.monotonic() + lease
    while not os.path.exists(path):
        if time.monotonic() > until:
            return False
        select.select([], [], [], LOOK)
    return True


def forget_abandoned(run, lease):
    """Removes the run of a client that died before the commit. A client that lives touches its record now and then."""
    try:
        if time.time() - os.stat(os.path.join(run, "record.json")).st_mtime < lease:
            return
        for name in ["record.json"] + os.listdir(run):  # the record first: without it, the rest is not taken for a cluster
            if name != "output":
                remove(os.path.join(run, name))
        for directory in (os.path.join(run, "output"), run):
            if os.path.isdir(directory) and not os.listdir(directory):
                os.rmdir(directory)
    except OSError as error:
        print("what the launch left cannot be removed: %s" % error)


def begin(run, first, place, orders, restarts, before):
    """Prepares the attempt; returns None, or the End of an attempt that may not start."""
    waited = time.time() - os.stat(os.path.join(first, "commit")).st_mtime
    lifetime = orders["lifetime"]
    if not before:
        keep_seed(run, first)
        if lifetime.get("queue") and waited > lifetime["queue"]:
            return limit_end("queue", lifetime["queue"])
        lifetime["spent"] = max(0.0, waited)
        write_atomically(os.path.join(place, "orders.json"), json.dumps(orders).encode())
        return None
    state, follows = last_state(before), load(os.path.join(before, AGAIN))
    cause = follows["cause"]
    os.makedirs(place, mode=0o700, exist_ok=True)
    for name in os.listdir(os.path.join(run, SEED)):
        shutil.copy(os.path.join(run, SEED, name), os.path.join(place, name))
    shutil.copy(os.path.join(first, "commit"), os.path.join(place, "commit"))
    ended, requeued = int(state.get("attempt") or restarts), requeued_at()
    keep_logs(before, place, ended)
    orders.update(attempt=ended + 1, restartReason=cause, attempts=attempts_of(state, ended, cause, follows.get("message")),
                  allocations=allocations_of(state, wall(requeued or None)), formerAllocations=state.get("formerAllocations") or [],
                  timeline=timeline_of(run, state, cause, [(Phase.QUEUED, requeued), (Phase.PROVISIONING, float(os.environ.get("SLURM_JOB_START_TIME") or 0))]))
    lifetime["spent"] = max(0.0, waited)
    write_atomically(os.path.join(place, "orders.json"), json.dumps(orders).encode())
    return None


def strip_attempts(run, first, last):
    """Calls strip for these attempts, also for those that Slurm requeued before they had a keeper."""
    for number in range(first, last + 1):
        if os.path.isdir(os.path.join(run, str(number))):
            strip(os.path.join(run, str(number)))


def may_follow(run, before):
    """Evaluates the attempt that ended, and returns whether another one may follow. If not, it writes the result."""
    strip_attempts(run, int(os.path.basename(before)), int(os.environ.get("RAYCTL_RESTARTS") or 0))
    end_all(load(os.path.join(before, "orders.json")))
    end_leftovers("TERM", "KILL")
    state = last_state(before)
    salvage(output_of(before))
    cause, _ = why_again(run, before, state)
    own = begun(state)  # an end that the keeper had begun is final: a driver that has ended does not run again
    stands = own is not None and own.cause not in SENTENCES and own.cause != Cause.START_FAILED
    if not stands and allowed(run, load(os.path.join(before, "orders.json")), before, cause):
        write_atomically(os.path.join(before, AGAIN), json.dumps({"cause": cause}).encode())
        return True
    write_result(run, before, cause, SENTENCES[cause] % "its", [(Phase.QUEUED, requeued_at())])
    return False


def give_up(run, place, orders, number):
    """Called at a signal to the keeper. When a node fails, Slurm queues the job again. If no attempt may follow, this cancels the job, so that it does not wait for
    nodes first. It does so at once, because Slurm kills the keeper soon (KillWait)."""
    def cancel():
        if not commands.inside() and "NODE FAILURE" in last_words(run) and not allowed(run, orders, place, Cause.LOST):
            commands.call("scancel", os.environ["SLURM_JOB_ID"])
    if number == signal.SIGTERM:
        threading.Thread(target=cancel, daemon=True).start()


def come_again(run, place, orders, tenure):
    """Requeues the job if Slurm had warned the keeper of the time limit, or of a preemption (PreemptParameters=send_user_signal). The keeper has then ended all
    processes, and without this Slurm would count the job as completed."""
    ended = load(os.path.join(place, "result.json")).get("exit", {})
    by_max = ended.get("cause") == Cause.MAX  # lifetime.max is the job's time limit less the time that the end takes
    if not (by_max or ended.get("message", "").startswith(WARNED)) or not orders.get("job"):
        return
    cause = Cause.TIME_LIMIT if by_max else ended["cause"]
    write_atomically(os.path.join(place, AGAIN), json.dumps({"cause": cause}).encode())
    if allowed(run, orders, place, cause):
        if commands.requeue(lambda: not tenure.superseded()) or tenure.superseded():  # a controller that did not answer may have started the next attempt meanwhile
            return
    os.unlink(os.path.join(place, AGAIN))


def withdraw(place):
    """Cancels the job of a lost run if Slurm has queued it again: the run has ended, so the job would wait for nodes for nothing."""
    if not commands.inside() and load(os.path.join(place, "result.json")).get("exit", {}).get("cause") == Cause.LOST and allocation.standing() == QUEUED_AGAIN:
        commands.call("scancel", os.environ["SLURM_JOB_ID"])


def keep_seed(run, first):
    """Makes second names for the files that the next attempt needs, too."""
    seed = os.path.join(run, SEED)
    os.makedirs(seed, mode=0o700, exist_ok=True)
    for name in os.listdir(first):
        if name in SEEDS or name.startswith("package-"):
            also_called(os.path.join(first, name), os.path.join(seed, name))


def keep_logs(before, place, ended):
    """Makes names in the next attempt's directory for the logs of earlier attempts, so that its keeper can serve all of them."""
    for name in os.listdir(before):
        to = os.path.join(place, "driver-%d.log" % ended if name == "driver.log" else name)
        if name.startswith("driver") and name.endswith(".log") and not os.path.exists(to):
            also_called(os.path.join(before, name), to)


def announce(run, place):
    """Writes for clients where the run is: attempt, job and node."""
    said = os.path.join(run, "slurm.out")
    write_atomically(os.path.join(run, "current"), json.dumps({
        "attempt": os.path.basename(place), "said": os.path.getsize(said) if os.path.exists(said) else 0, "job": int(os.environ.get("SLURM_JOB_ID") or 0), "at": wall(),
        "node": os.environ.get("SLURMD_NODENAME", ""), "start": job_start()}).encode())


def job_start():
    """When Slurm last started the job, in epoch seconds; 0 if Slurm does not say."""
    return int(os.environ.get("SLURM_JOB_START_TIME") or 0)


def finish(place, end):
    """Writes the result of an attempt that could not begin."""
    os.makedirs(place, mode=0o700, exist_ok=True)
    orders = load(os.path.join(place, "orders.json")) or load(os.path.join(os.path.dirname(place), "1", "orders.json"))
    log = keeper.opened_log(place)
    state = State(orders, place, log)
    strip(place)
    state.final(os.path.join(place, "result.json"), end.document(), {"bytes": 0, "missing": []})
    share_result(place)


def may_come_back(place, signals):
    """Whether Slurm may start the job again: Slurm ended the job by a signal, or was asked to requeue it. Slurm signals the step, too, so the result may say that the
    nodes were lost or did not start."""
    result = load(os.path.join(place, "result.json"))
    if os.path.exists(os.path.join(place, AGAIN)):
        return True
    ended = result.get("exit", {})
    return not result or ended.get("message", "").startswith(model.SIGNALLED + "TERM") or signal.SIGTERM in signals and ended.get("cause") in (Cause.LOST, Cause.START_FAILED)
