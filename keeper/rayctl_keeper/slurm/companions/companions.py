"""The companion jobs of a cluster, for nodes that Ray's autoscaler requests and for an early head's gang: how the keeper submits, watches and cancels them."""

import os
import queue
import subprocess
import threading
import time

from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.slurm.companions.drains import Drains
from rayctl_keeper.slurm.companions.submission import Job, given
from rayctl_keeper.slurm.companions.submitter import BELIEVE, Submitter
from rayctl_keeper.slurm.controller import commands, listing, reasons
from rayctl_keeper.slurm.controller.listing import NONE, moment, waits
from rayctl_keeper.slurm.controller.questions import ENDING, Questions
from rayctl_keeper.state.model import AllocationState, Reason

QUICK, SLOW, SLOWER = 2.0, 30.0, 1.5  # seconds between looks at jobs after a change, at most, and how that grows
AT_THE_END, UNDER_WAY, LOOK = 10.0, 3.0, 0.3
SETTLES = 8.0  # seconds in which a job that is COMPLETING shows why it ended, as its next state


def end_all(orders, limit=AT_THE_END):
    """Cancels all companion jobs of the cluster, also those for whose submission no answer came."""
    wish = (orders.get("start") or {}).get("companions")
    if wish:
        try:
            commands.call("scancel", "--name=" + wish["name"], timeout=limit)
        except (OSError, subprocess.TimeoutExpired):
            pass  # they end by themselves: companion.py, node/headwatch.py


class Companions:
    """A separate thread asks Slurm; the keeper's main thread never waits for it."""

    def __init__(self, orders, run_dir, bell, log):
        self._orders, self._run_dir, self._bell, self._log = orders, run_dir, bell, log
        self._wish = (orders.get("start") or {}).get("companions") or {"name": "", "scripts": {}}
        self._slurm = Questions(self._wish["name"])
        self._drains = Drains(orders, run_dir, self._slurm)
        self._submitter = Submitter(run_dir, self._wish, self._slurm, self._drains, self._stands, self._end_all, bell, log)
        self._tasks, self._thread = queue.Queue(), None
        self._jobs = {}  # by node name
        self._asked = []  # jobs that are not handed in yet
        self._ended = []  # [(node name, exit code)], not yet taken
        self._closed = False

    # For the keeper's thread.

    def submit(self, member, environ):
        """Requests a node; hand_in must follow."""
        job = self._jobs[member.name] = Job(member, environ)
        self._asked.append(job)

    def hand_in(self):
        """Submits the jobs that were requested since the last call, those of a group together."""
        asked, self._asked = self._asked, []
        groups = {}
        for job in asked:
            groups.setdefault(job.member.group["name"], []).append(job)
        for jobs in groups.values():
            self._tasks.put((self._submitter.submit, jobs))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="companions")
            self._thread.start()

    def offered(self):
        """How many submissions wait for a client."""
        return self._submitter.offers.count()

    def take_offer(self):
        """A submission for the client that takes it now; None: there is none."""
        return self._submitter.offers.take()

    def offer_taken(self, offer_id, number, words):
        """Takes the result of a submission: the number of a job, or the reason why there is none."""
        self._tasks.put((self._submitter.reported, offer_id, number, words))

    def cancel(self, member):
        """Releases a node."""
        self._tasks.put((self._cancel, member))

    def ended(self):
        """The nodes whose jobs have ended since the last call."""
        return [self._ended.pop(0) for _ in range(len(self._ended))]

    def standing(self, member):
        """Whether the node is queued or granted, Slurm's reason, and when Slurm expects to start it; None: its job has ended."""
        job = self._jobs.get(member.name)
        if job is None:
            return None
        if job.state != "PENDING":
            return AllocationState.GRANTED, job.drain[1] if job.drain else "job %s" % job.id, None
        return (AllocationState.QUEUED,) + waits(job) if job.id else (AllocationState.QUEUED, job.words or "being submitted", None)

    def drain(self, member):
        """The time by which the node must be empty, in epoch seconds, and the reason, if that time is near and the cluster continues: its job ends by its time limit, or
        Slurm has warned it, whichever is seen first: Slurm's signal comes up to a minute before it is due (sbatch(1), --signal). Else None."""
        job = self._jobs.get(member.name)
        if not job or job.member is not member:
            return None
        if not job.drain and not job.warned and self._drains.warned(job):
            self._tasks.put((self._drain_warned, job))
        return job.drain

    def warned(self, member):
        """When a node's or the gang's job ends, in epoch seconds, and the cause, if Slurm has warned it. None: Slurm has not."""
        job = self._jobs.get(member.name)
        return job and self._drains.warned(job)

    def explained(self, gang):
        """standing() of a gang's job, with Slurm's reason in words in the place of its message, and whether the job can never start: (queued or granted, reason, words,
        never). None: it has ended."""
        job = self._jobs.get(gang.name)
        if job is None:
            return None
        if not job.id:
            return AllocationState.QUEUED, Reason.SUBMITTED, "its job is being submitted" + ("; " + job.words if job.words else ""), False
        if job.state != "PENDING":
            return AllocationState.GRANTED, "", "job " + job.id, False
        return listing.explained(job)

    def look_soon(self):
        """Checks the jobs earlier than the next regular check."""
        self._tasks.put((self._look,))

    def look_now(self):
        """Checks the jobs, and waits for the result."""
        looked = threading.Event()
        self._tasks.put((self._look,))
        self._tasks.put((looked.set,))
        looked.wait(UNDER_WAY)

    def close(self):
        """The end begins: queued jobs are cancelled now, because the grace of drivers may last longer than the keeper (KillWait)."""
        self._closed = True
        if self._thread:
            self._tasks.put((self._slurm.run, "scancel", "--state=PENDING", "--name=" + self._wish["name"]))

    def end(self):
        """Cancels all jobs at the end, also those that are being submitted."""
        self._closed = True
        if self._thread:
            idle = threading.Event()
            self._tasks.put((idle.set,))
            idle.wait(UNDER_WAY)
            end_all(self._orders)
        self._jobs, self._asked = {}, []
        self._submitter.offers.clear()

    def wait(self, limit):
        """Waits until Slurm has taken back the nodes of the cancelled jobs, because the result states that nothing is allocated; at most that many seconds."""
        until = time.monotonic() + limit
        while (self._submitter.known or self._submitter.offers.made) and time.monotonic() < until:
            rows = self._slurm.rows() or []
            if all(job.state in ENDING and job.state != "COMPLETING" for job in rows):
                return
            if any(job.state not in ENDING for job in rows):  # a client has submitted it after the others were cancelled
                end_all(self._orders)
            self._bell.wait(LOOK)

    def begin(self):
        """Prepares for the next start of the cluster."""
        self._closed = False

    # In the thread.

    def _work(self):
        pause = QUICK
        while True:
            try:
                task = self._tasks.get(timeout=pause)
            except queue.Empty:
                task = None
            try:
                if task:
                    task[0](*task[1:])
                    pause = QUICK
                else:
                    pause = QUICK if self._look() else min(SLOW, pause * SLOWER)
            except Exception as error:  # the thread goes on, whatever happens
                self._log("companion jobs: %s: %s" % (type(error).__name__, error))

    def _stands(self, job):
        """Whether the job is still needed: all may have been ended meanwhile."""
        return self._jobs.get(job.member.name) is job and not self._closed

    def _cancel(self, member):
        job = self._jobs.get(member.name)
        if not job or job.member is not member:
            return
        if not job.id:
            if self._submitter.offers.without(job):
                self._end(job, "no client has submitted its job")
            return
        state = next((found.state for found in self._slurm.listed() or [] if found.id == job.id), "")
        if state in ENDING:  # Ray has seen its end before us
            member.released = job.cancelled
            return self._end(job, "its job %s ended (%s)" % (job.id, state))
        job.cancelled = True
        self._slurm.run("scancel", job.id)

    def _look(self):
        """Checks all jobs; returns whether something has changed."""
        if not self._jobs or self._closed:
            return False
        listed = self._slurm.listed()
        if listed is None:
            return False
        self._submitter.look(listed)
        if not self._submitter.offers.claimed():
            self._cancel_strays(listed)
        found, new = {f.id: f for f in listed}, False
        for job in list(self._jobs.values()):
            if job.id:
                new = self._look_at(job, found.get(job.id, NONE)) or new
            elif job.again and time.monotonic() > job.again:
                self._submitter.submit([job])
        return new

    def _cancel_strays(self, listed):
        """Cancels jobs that are not needed: sbatch gave no answer, or scancel failed."""
        ours = {job.id for job in list(self._jobs.values())}
        strays = [f.id for f in listed if f.id not in ours and f.state not in ENDING]
        if strays:
            self._slurm.run("scancel", *strays)

    def _look_at(self, job, found):
        """Takes over Slurm's state of a job; returns whether something has changed."""
        state, reason, now = found.state, found.reason, time.monotonic()
        job.missing = (job.missing or now) if not state else None
        job.completing = (job.completing or now) if state == "COMPLETING" and job.member.name == GANG else None
        if job.missing and now < job.missing + BELIEVE or job.completing and now < job.completing + SETTLES:
            return True
        before = job.state, job.reason
        if not state or state in ENDING:
            job.ending = state  # not job.state, by which the job counts as granted
            job.member.released = job.cancelled  # Ray may just be giving up what has ended by itself
            self._end(job, "its job %s ended%s" % (job.id, " (%s)" % state if state else ""))
        elif state == "PENDING" and job.member.name != GANG and reasons.explain(reason)[2]:
            self._slurm.run("scancel", job.id)
            job.member.hopeless = True
            self._end(job, "Slurm can never start its job %s: %s" % (job.id, reason))
        else:
            job.state, job.reason, job.start = state, reason, moment(found.start)
            self._drains.before_time_limit(job, found)
            self._bell.ring()
        return (state, reason) != before

    def _drain_warned(self, job):
        if self._drains.after_warning(job):
            self._bell.ring()

    def _end_all(self, jobs, message):
        for job in jobs:
            self._end(job, message)

    def _end(self, job, message):
        member = job.member
        try:
            os.unlink(given(self._run_dir, member.name, member.serial))  # a job of which we do not know ends without it
        except FileNotFoundError:
            pass
        except OSError as error:
            self._log("the files for the job of %s cannot be removed: %s" % (member.name, error))
        if self._jobs.get(member.name) is not job:
            return  # all were ended meanwhile
        member.message, member.died = message, not member.released
        member.ending = ((job.state if job.ending is None else job.ending) or "UNKNOWN") if job.id else ""
        self._jobs.pop(member.name, None)
        self._ended.append((member.name, 1))
        self._bell.ring()
