"""What follows when the keeper of a Slurm job was killed, and its batch script was not."""

import json
import os

from rayctl_keeper.run import resume
from rayctl_keeper.slurm.attempts.account import conclude, end_leftovers
from rayctl_keeper.slurm.attempts.after import AGAIN, allowed, last_state, load, output_of, salvage
from rayctl_keeper.slurm.batch.start import job_start
from rayctl_keeper.slurm.companions.companions import end_all
from rayctl_keeper.slurm.controller import commands
from rayctl_keeper.state import model
from rayctl_keeper.state.document import write_atomically
from rayctl_keeper.state.exits import End

KILLED = "the keeper was killed"


def conclude_attempt(run):
    """After the keeper was ended by a signal that it could not handle: its nodes end, the driver's output is saved, and the next
    attempt follows if it may. Otherwise the run ends here, and its result is written."""
    current = load(os.path.join(run, "current"))
    if current.get("start", 0) != job_start():
        return  # it is the attempt before that was announced last: this one was not begun
    place = os.path.join(run, current.get("attempt") or "1")
    if os.path.exists(os.path.join(place, "result.json")) or not os.path.exists(os.path.join(place, "claim")):
        return
    end_all(load(os.path.join(place, "orders.json")))
    end_leftovers("USR1", "TERM", "KILL")
    salvage(output_of(place))
    end, orders = begun_end(last_state(place)), load(os.path.join(place, "orders.json"))
    cause, message = ("lost", KILLED) if end is None else (end.cause, end.message)
    if orders.get("job") and (end is None or cause in ("preempted", "time-limit")) and allowed(run, orders, place, cause):
        write_atomically(os.path.join(place, AGAIN), json.dumps({"cause": cause, "message": message}).encode())
        if commands.requeue():
            return
        os.unlink(os.path.join(place, AGAIN))
    conclude(run, place, end or End(cause, message))


def begun_end(state):
    """The end that the keeper was carrying out when it was killed: a driver that has ended is not run again, and its exit code counts. None: there was
    none, or only a signal, whose cause is unknown."""
    message = (state.get("reason") or {}).get("message") or ""
    if state.get("phase") != "Draining" or message.startswith(model.SIGNALLED):
        return None
    end = resume.the_end(state)
    if end is not None and end.driver is None:
        end = End(end.cause, "%s; meanwhile %s" % (message, KILLED))
    return end
