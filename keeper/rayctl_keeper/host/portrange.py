"""Ports of a range that a site's firewall lets through between nodes (slurm.ports).

A process takes groups of GROUP ports for as long as it lives, by the same kind of claim as single ports have: the keepers and supervisors of several clusters on
one host, and of several nodes of one, share nothing else."""

import collections
import random

from rayctl_keeper.host import ports

GROUP = 16  # a claim for each port would be a file descriptor for each


class Range:
    """What one process has of the range."""

    def __init__(self, text, least, most):
        """Takes as many ports as there are for it, at most about `most`. Raises OSError if that is less than the least."""
        first, last = (int(number) for number in text.split("-"))
        self._ports, self._claimed, groups = collections.deque(), set(), list(range(first // GROUP, last // GROUP + 1))
        random.SystemRandom().shuffle(groups)
        for group in groups:
            if len(self._ports) >= most:
                break
            try:
                ports.claim("s-%d" % group)
            except OSError:
                continue  # another process has it
            whole = range(max(first, group * GROUP), min(last, group * GROUP + GROUP - 1) + 1)
            self._ports.extend(port for port in whole if ports.is_free("", port, again=True))
        if len(self._ports) < least:
            raise OSError("%d of the ports %s (slurm.ports) are free here and %d are needed: other clusters, or other users, on this node have the others" % (len(self._ports), text, least))

    def take(self, host, count):
        """Ports on which no process listens now; those that were taken last come last."""
        found = []
        for _ in range(len(self._ports)):
            port = self._ports[0]
            self._ports.rotate(-1)
            if ports.is_free(host, port, again=True) and self._claim(port):
                found.append(port)
            if len(found) == count:
                return found
        raise OSError("of the ports that this node has of slurm.ports, none is free any more")

    def _claim(self, port):
        """Keeps it from clusters without a range, which know no groups. Workers' ports need no such claim: a raylet looks whether they are free."""
        try:
            if port not in self._claimed:
                ports.claim("-%d" % port)
            self._claimed.add(port)
        except OSError:
            return False
        return True

    def others(self, taken):
        """All of them but those."""
        return sorted(set(self._ports) - set(taken))
