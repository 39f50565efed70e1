"""Submissions for a client that watches: where compute nodes may not submit jobs, `rayctl run`, `up` or `submit` does it in the keeper's stead."""

import itertools
import threading
import time

CLAIM = 90.0  # seconds for a client to submit and to report it; it stops sbatch after 60 (slurm/controller/commands.go, commandTime)
AGAIN = 30.0  # seconds after which the keeper tries it itself again: the site may let its node submit by now


class Offer:
    """Jobs of nodes of one group that are to be submitted by one call."""

    def __init__(self, number, submission, limits):
        self.id, self.submission, self.limits = str(number), submission, limits
        self.since, self.claimed = time.monotonic(), False


class Offers:
    """One submission is taken at a time, so that an unreported job can only belong to that one. Safe for all threads."""

    def __init__(self):
        self._lock, self._offers, self._numbers = threading.Lock(), [], itertools.count(1)
        self.made = False  # there ever was one

    def add(self, submission, limits):
        """Waits for a client from now on."""
        with self._lock:
            self.made = True
            self._offers.append(Offer(next(self._numbers), submission, limits))

    def count(self):
        """How many wait for a client that takes them."""
        return sum(1 for offer in list(self._offers) if not offer.claimed)

    def taken(self):
        """Those that a client may be submitting at this moment."""
        return [offer for offer in list(self._offers) if offer.claimed]

    def claimed(self):
        """Whether there is one of them."""
        return bool(self.taken())

    def take(self):
        """For a client: the id and sbatch's arguments; None: there is nothing to submit now."""
        with self._lock:
            if self.claimed() or not self._offers:
                return None
            offer = self._offers[0]
            offer.claimed, offer.since = True, time.monotonic()
            return {"id": offer.id, "argv": offer.submission.argv(offer.limits)}

    def pop(self, number):
        """The offer that a client has reported; None: it took too long."""
        return next(iter(self._removed(lambda offer: offer.id == number and offer.claimed)), None)

    def overdue(self):
        """Removes and returns those that were taken but not reported, and those that no client has taken for a while."""
        now = time.monotonic()
        return self._removed(lambda offer: now > offer.since + (CLAIM if offer.claimed else AGAIN))

    def without(self, job):
        """Withdraws a job that no client has taken; returns whether it was among them."""
        with self._lock:
            offer = next((o for o in self._offers if job in o.submission.jobs), None)
            if offer is not None and not offer.claimed:
                offer.submission.jobs.remove(job)
                if not offer.submission.jobs:
                    self._offers.remove(offer)
            return offer is not None

    def clear(self):
        """Withdraws all."""
        self._removed(lambda offer: True)

    def _removed(self, which):
        with self._lock:
            found = [offer for offer in self._offers if which(offer)]
            self._offers = [offer for offer in self._offers if offer not in found]
            return found
