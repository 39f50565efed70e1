"""Finds out whether a command that runs on every node (job.launch) has ended because one of its nodes was lost: ranks/main.py ends with this code and such a line then. Each line
of a rank begins with its number in brackets, so no rank can write that line."""

import re

from rayctl_keeper.driver import rayjob
from rayctl_keeper.state.exits import AttemptLost
from rayctl_keeper.state.model import Cause

CODE = 76
LINE = re.compile(r"^(?:rayctl: )?((?:rank|ranks|the ranks) .*: the node (was lost|is being taken away))$", re.M)
CAUSES = {"was lost": Cause.LOST, "is being taken away": Cause.PREEMPTED}
TAIL = 16 << 10  # bytes: Ray may write something after the line


def check(job, end, driver_log):
    """Raises AttemptLost where it was so. end: how Ray shows the driver's end; its whole output is in driver_log."""
    if end.driver is None or end.driver[0] != CODE or not rayjob.has_ranks(job):
        return
    for sentence, what in LINE.findall(driver_log.end(TAIL).decode("utf-8", "replace"))[-1:]:
        raise AttemptLost(sentence, CAUSES[what])
