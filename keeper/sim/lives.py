"""Which kind of life a seed is."""

import random

from sim.life import ExternalLife, Life
from sim.slurmlife import SlurmLife

KINDS = {"spawn": Life, "external": ExternalLife, "step": SlurmLife}


def kind_of(seed):
    """Its name."""
    return random.Random("kind %d" % seed).choice(sorted(KINDS))


def seeds(first, count, kind=""):
    """So many seeds from the first one on, of one kind or of all."""
    while count:
        if not kind or kind_of(first) == kind:
            yield first
            count -= 1
        first += 1
