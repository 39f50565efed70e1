"""Reads why a command that runs on every node (job.launch) has failed: the last line of ranks/main.py names the rank. With the code CODE and the words of CAUSES a node was lost, and
it was not the job that failed. Each line of a rank begins with its number in brackets, so no rank can write such a line."""

import re

from rayctl_keeper.driver import rayjob
from rayctl_keeper.state.exits import AttemptLost
from rayctl_keeper.state.model import Cause

CODE = 76  # CodeLost of launcher/runstate/causes.go, CODES[Cause.LOST] of state/model.py, NODE_GONE of ranks/main.py: a test compares them
LINE = re.compile(r"^(?:rayctl: )?((?:rank|ranks|the ranks) .*)$", re.M)
CAUSES = {": the node was lost": Cause.LOST, ": the node is being taken away": Cause.PREEMPTED}
TAIL = 16 << 10  # bytes: Ray may write something after the line
LONGEST = 500  # characters


def tell(job, end, driver_log):
    """Gives the end that line as its message, and raises AttemptLost where a node was lost. end: how Ray shows the driver's end; its whole output is in driver_log."""
    if end.driver is None or end.driver[0] == 0 or not rayjob.has_ranks(job):
        return
    for sentence in LINE.findall(driver_log.end(TAIL).decode("utf-8", "replace"))[-1:]:
        for words, cause in CAUSES.items():
            if end.driver[0] == CODE and sentence.endswith(words):
                raise AttemptLost(sentence, cause)
        end.message = sentence[:LONGEST]
