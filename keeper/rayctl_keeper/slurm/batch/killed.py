"""What follows when the keeper of a Slurm job was killed, and its batch script was not."""

import json
import os
import signal

from rayctl_keeper.host import process
from rayctl_keeper.slurm.attempts.account import LEFTOVER, end_leftovers, write_result
from rayctl_keeper.slurm.attempts.after import AGAIN, allowed, last_state, load, output_of, salvage
from rayctl_keeper.slurm.attempts.tenure import let_go
from rayctl_keeper.slurm.batch.start import job_start
from rayctl_keeper.slurm.companions.companions import end_all
from rayctl_keeper.slurm.controller import commands
from rayctl_keeper.state.conclude import Verdict, begun, end_of
from rayctl_keeper.state.document import wall, write_atomically
from rayctl_keeper.state.model import Cause

KILLED = "the keeper was killed"


def end_orphans():
    """Ends the keeper's srun, which passes the signal on to the nodes that it reaches. It needs neither the run's directory nor Slurm's controller: where this node reaches
    neither, nobody else would keep its driver from running beside that of the next attempt."""
    orphans = process.children(os.getpid())
    for pid in orphans:
        try:
            os.kill(pid, signal.SIGUSR1)
        except OSError:
            pass  # it has ended
    process.await_death(orphans, LEFTOVER)


def conclude_attempt(run):
    """After the keeper was ended by a signal that it could not handle: its nodes end, the driver's output is saved, and the next
    attempt follows if it may. Otherwise the run ends here, and its result is written."""
    end_orphans()
    current = load(os.path.join(run, "current"))
    if current.get("start", 0) != job_start():
        return  # it is the attempt before that was announced last: this one was not begun
    place = os.path.join(run, current.get("attempt") or "1")
    if os.path.exists(os.path.join(place, "result.json")) or not os.path.exists(os.path.join(place, "claim")):
        return
    end_all(load(os.path.join(place, "orders.json")))
    end_leftovers("USR1", "TERM", "KILL")
    let_go(place)
    salvage(output_of(place))
    state, orders = last_state(place), load(os.path.join(place, "orders.json"))
    own, end = begun(state), end_of(state, Verdict(Cause.LOST, KILLED, wall()))
    if orders.get("job") and (own is None or own.cause in (Cause.PREEMPTED, Cause.TIME_LIMIT)) and allowed(run, orders, place, end.cause):
        write_atomically(os.path.join(place, AGAIN), json.dumps({"cause": end.cause, "message": end.message}).encode())
        if commands.requeue():
            return
        os.unlink(os.path.join(place, AGAIN))
    write_result(run, place, Cause.LOST, KILLED)
