"""After an attempt has ended: what is left of it is killed, its result is written where its keeper could not, and the next attempt gets its history."""

import json
import os
import select
import shutil
import subprocess
import time

from rayctl_keeper.node.files import raytoken
from rayctl_keeper.run.shared import publish
from rayctl_keeper.slurm.attempts.after import SENTENCES, last_state, load, output_of, salvage
from rayctl_keeper.slurm.controller import commands
from rayctl_keeper.state import model
from rayctl_keeper.state.conclude import Verdict, begun, conclude
from rayctl_keeper.state.document import RESERVE, ended_attempt, seconds_of, wall, write_atomically
from rayctl_keeper.state.model import AllocationState, Cause, Event, JobState, Phase

SEED = "seed"  # what the keeper removes at the end of an attempt, kept for the next one
SEEDS = ("token", "secrets.json")
LEFTOVER = 30.0  # seconds that steps of the attempt before may take to end
ARRIVES = 0.5  # seconds for a signal to reach all nodes of a step: the controller passes each on by itself


def end_leftovers(*signals):
    """Ends the step of the attempt before by these signals, one after the other. Of a heterogeneous job Slurm (24.11) requeues only the component
    whose node failed: in the others it goes on, and srun would be refused ("Duplicate job step id"). Best effort: if it fails, srun reports it."""
    if commands.inside():
        return end_inside(signals)
    jobs = [os.environ.get("SLURM_JOB_ID_HET_GROUP_%d" % n, "") for n in range(int(os.environ.get("SLURM_HET_SIZE") or 0))]
    if signals[0] == "USR1":
        jobs = jobs or [os.environ["SLURM_JOB_ID"]]
    steps = [job + ".0" for job in jobs if job]
    if not steps:
        return
    for name in signals:
        tell(name, steps)  # those that are there
        until = time.monotonic() + LEFTOVER
        while time.monotonic() < until:
            go_on(steps)
            listed = commands.ask("squeue", "--noheader", "--steps", "--format=%i", "--jobs=" + ",".join(jobs))
            if listed is not None and not any(step.endswith(".0") for step in listed.split()):
                return
            select.select([], [], [], 1.0)


def tell(name, steps):
    """Sends a signal to all processes of steps. USR1 is for the supervisors, but a user's command dies of it, too, and a shell would begin the next one before it
    gets the signal itself, because Slurm signals one process after the other: all are stopped until each has it."""
    for part in ("STOP", name) if name == "USR1" else (name,):
        commands.call("scancel", "--signal=" + part, *steps, stderr=subprocess.DEVNULL)
        if name == "USR1":
            select.select([], [], [], ARRIVES)


def go_on(steps):
    """Continues what tell() has stopped; again and again, because the stop may come to a node later than this, or this not at all."""
    commands.call("scancel", "--signal=CONT", *steps, stderr=subprocess.DEVNULL)


def end_inside(signals):
    """end_leftovers in somebody else's job, whose step 0 is not ours."""
    for name in signals:
        until = time.monotonic() + LEFTOVER
        steps = commands.steps()
        if steps:
            tell(name, steps)
        while steps and time.monotonic() < until:
            select.select([], [], [], 1.0)
            go_on(steps)
            steps = commands.steps()
        if not steps:
            return


def write_result(run, place, cause, message, phases=()):
    """Writes the result of an attempt whose keeper could not, or did not know why it got the signal. phases: what followed, by Slurm's clock."""
    state = dict({"attempt": 1}, **last_state(place))
    job, log = state.get("job") or {}, salvage(output_of(place))
    running = not log["whole"] and not {job.get("state"), (job.get("prepare") or {}).get("state")}.isdisjoint((JobState.PENDING, JobState.RUNNING))
    state.update(timeline=timeline_of(run, state, cause, phases), attempts=overruled(state, cause, message))
    ended = wall(phases[0][1]) if phases and phases[0][1] else wall()
    result = dict(conclude(state, Verdict(cause, message, ended)), log=state.get("log") or {"bytes": log["size"], "missing": [[log["size"], -1]] if running else []})
    strip(place)  # also gives back the room for this on a full disk
    write_atomically(os.path.join(place, "result.json"), json.dumps(result).encode())
    share_result(place)
    shutil.rmtree(os.path.join(run, SEED), ignore_errors=True)


def share_result(place):
    """For job.shareDir: the result of an attempt without a keeper."""
    failed = publish(place)
    if failed:
        print("job.shareDir: %s" % failed)


def timeline_of(run, state, cause, phases):
    """The timeline up to an attempt that ended, and what followed by Slurm's clock. An end that was none was the loss of its cluster."""
    ended, events = state.get("attempt", 1), [dict(event) for event in state.get("timeline") or []]
    for event in events:
        if event["event"] == Event.PHASE and event["to"] == Phase.GONE:
            event.update(to=Phase.LOST, code=cause)
    began = float(load(os.path.join(run, "current")).get("start") or 0)
    if began and events and not any(event["to"] == Phase.PROVISIONING for event in events):
        events.insert(0, {"at": wall(min(began, seconds_of(events[0]["at"]))), "attempt": ended, "event": Event.PHASE, "to": Phase.PROVISIONING, "code": "", "message": ""})
    for phase, at in phases:
        at = min(time.time(), max([at] + [seconds_of(event["at"]) for event in events[-1:]]))
        if phase == Phase.QUEUED and (not events or events[-1]["to"] != Phase.LOST):
            events.append({"at": wall(at), "attempt": ended, "event": Event.PHASE, "to": Phase.LOST, "code": cause, "message": SENTENCES[cause] % "its"})
        events.append({"at": wall(at), "attempt": ended + 1, "event": Event.PHASE, "to": phase, "code": cause if phase == Phase.QUEUED else "", "message": ""})
    return events


def overruled(state, cause, message):
    """The attempts so far. Where the last one's keeper did not know why it got the signal, or took the end of its nodes for a start that had failed, this is the cause."""
    attempts = list(state.get("attempts") or [])
    if attempts and (attempts[-1]["message"].startswith(model.SIGNALLED) or attempts[-1]["cause"] == Cause.START_FAILED and begun(state) is None):
        attempts[-1] = dict(attempts[-1], cause=cause, message=message)
    return attempts


def attempts_of(state, ended, cause, message=""):
    """All attempts up to the one that ended for this cause, for the next one. Its keeper may have been killed before it could record anything."""
    message = message or SENTENCES[cause] % "its"
    attempts = list(state.get("attempts") or [])
    if not attempts or attempts[-1]["attempt"] != ended:
        return attempts + [ended_attempt(dict(state, attempt=ended), cause, message)]
    return overruled(state, cause, message)


def allocations_of(state, at):
    """Those of the attempts before, which ended with them."""
    return [a if a["released"] else dict(a, state=AllocationState.RELEASED, released=at, message="it ended with its cluster") for a in state.get("allocations") or []]


def requeued_at():
    """When Slurm queued the job again: that is its time of submission from then on (slurm/src/slurmctld/job_mgr.c, batch_requeue_fini)."""
    lines = (commands.ask("squeue", "--noheader", "--jobs=" + os.environ["SLURM_JOB_ID"], "--format=%V") or "").split()
    return float(lines[0]) if lines and lines[0].isdigit() else 0.0


def strip(place):
    """Removes from an attempt's directory what its keeper removes at the end, unless it was killed."""
    for name in os.listdir(place):
        if name in SEEDS or name == RESERVE or name.startswith((raytoken.PREFIX, "package-")) or name.endswith(".tmp"):
            remove(os.path.join(place, name))


def remove(path):
    """A file or a directory with all below it; what is not there is fine."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
