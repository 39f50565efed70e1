"""The keeper's submissions of companion jobs, in the thread that asks Slurm."""

import os
import time

from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.slurm.companions.offers import Offers
from rayctl_keeper.slurm.companions.submission import Submission, refused
from rayctl_keeper.slurm.controller import commands, hopeless
from rayctl_keeper.slurm.controller.questions import ENDING, PATIENCE

LATER = 30.0  # seconds until a gang is submitted again to a controller that does not answer
BELIEVE = 12.0  # a controller that was restarted recovers jobs from their nodes (slurm/fate.go)
LOOK = 0.3
TIMED_OUT = "timed out"  # a command that did not end in its time (questions.py)
OFFERED = "waits for a `rayctl run`, `up` or `submit` that watches this cluster and submits its job: %s may not (%s)"


class Submitter:
    """Submits jobs, never one twice. stands(job) is whether a job is still wanted, ended(jobs, message) takes those that never will be one."""

    def __init__(self, run_dir, wish, slurm, drains, stands, ended, bell, log):
        self._run_dir, self._wish, self._slurm, self._drains = run_dir, wish, slurm, drains
        self._stands, self._ended, self._bell, self._log = stands, ended, bell, log
        self._why = ""  # this node may not submit jobs, by sbatch's words
        self.known = set()  # ids of all jobs that ever were
        self.offers = Offers()

    def submit(self, jobs):
        """Submits the jobs of nodes of one group."""
        jobs = [job for job in jobs if self._stands(job)]
        if not jobs:
            return
        submission, limits = Submission(self._run_dir, self._wish, jobs), self._limits(jobs[0].member)
        try:
            submission.prepare()
        except OSError as error:  # a full disk
            return self._ended(jobs, "its job cannot be submitted: %s" % error)
        if self.offers.claimed():  # whose job could be taken for ours
            return self._offer(submission, limits)
        code, out, words = self._slurm.run("sbatch", "--parsable", *submission.argv(limits))
        number = out.strip().split(";")[0] if code == 0 else ""
        if not number and not hopeless.refused_here(words):  # the answer may be lost, and the job be there all the same
            number = self._unanswered(submission, words)
        if number:
            return self._submitted(submission, number)
        if hopeless.refused_here(words) and (self._why or self._slurm.listed() is not None):  # it can ask for them; once is enough
            self._why = words
            return self._offer(submission, limits)
        return self._refused(jobs, words)

    def _offer(self, submission, limits):
        """Lets a client submit the jobs: nodes may not. The keeper can ask Slurm about them all the same."""
        submission.jobs = [job for job in submission.jobs if self._stands(job)]  # meanwhile all may have been ended
        if not submission.jobs:
            return
        for job in submission.jobs:
            job.words = OFFERED % (os.environ.get("SLURMD_NODENAME") or os.uname().nodename, self._why)
        self.offers.add(submission, limits)
        self._bell.ring()

    def _limits(self, member):
        """Options of sbatch for the time of a node's job; the gang's script has its own."""
        return [] if member.name == GANG else self._drains.limits((self._wish.get("minutes") or {}).get(member.group["name"]))

    def _submitted(self, submission, number):
        """Slurm has the jobs."""
        for job, job_id in zip(submission.jobs, submission.ids(number)):
            job.id, job.again = job_id, None
            self.known.add(job_id)
            self._log("node %s is job %s" % (job.member.name, job_id))
        unwanted = [job.id for job in submission.jobs if not self._stands(job)]  # meanwhile all were ended
        if unwanted:
            self._slurm.run("scancel", *unwanted)

    def _refused(self, jobs, words, by_client=False):
        """Slurm has none of the jobs, as far as is known: what it makes of a lost request all the same ends by itself, without its file (_ended)."""
        answered = bool(words) and not any(text in words for text in commands.NO_ANSWER + (TIMED_OUT,))
        elsewhere = by_client and hopeless.refused_here(words)  # that client may not submit it, another one may
        if jobs[0].member.name == GANG and words and (elsewhere or not answered):
            jobs[0].words, jobs[0].again = words, time.monotonic() + LATER
            return self._bell.ring()
        words, ever = words or "sbatch ended without output", hopeless.refused_for_ever(words)
        if len(jobs) > 1 and answered and not ever:  # no arrays here (MaxArraySize), or more jobs than the user may have
            for job in jobs:
                self.submit([job])
            return None
        for job in jobs:
            job.member.hopeless = ever
        return self._ended(jobs, refused(words) if jobs[0].member.name == GANG else words)

    def _unanswered(self, submission, words):
        """The number of a submission that failed according to sbatch, "" if there is none. If that is not certain, Slurm is asked until it answers."""
        until = time.monotonic() + PATIENCE
        while True:
            listed = self._slurm.listed()
            new = self._found(submission, listed or [])
            if new or not self._stands(submission.jobs[0]) or listed is not None and words or time.monotonic() > until:
                return new
            until = min(until, time.monotonic() + BELIEVE) if listed is not None else until
            time.sleep(LOOK)

    def _found(self, submission, listed):
        """The number of a submission among jobs that are not known."""
        return submission.number({found.id for found in listed if found.id not in self.known and found.state not in ENDING})

    # By clients.

    def reported(self, offer_id, number, words):
        """A client has submitted what it took, or sbatch's words are why not."""
        offer = self.offers.pop(offer_id)
        if offer and number:
            self._submitted(offer.submission, number)
        elif offer:
            self._refused(offer.submission.jobs, words, by_client=True)
        elif number and number not in {job_id.partition("_")[0] for job_id in self.known}:
            self._slurm.run("scancel", "--name=" + self._wish["name"], number)  # no job but the cluster's, whatever was reported

    def look(self, listed):
        """Takes over what a client has submitted and not reported, and tries anew what waits for one."""
        for offer in self.offers.taken():  # at once: a client that was killed meanwhile reports nothing, and one that lives reports the same
            number = self._found(offer.submission, listed)
            if number and self.offers.pop(offer.id):
                self._submitted(offer.submission, number)
        for offer in self.offers.overdue():
            self.submit(offer.submission.jobs)
