"""Reports to the keeper that a node's setup failed: `keeper.pyz report LOG`."""

import os
import sys
import time

from rayctl_keeper.kubernetes.tell import tell
from rayctl_keeper.state.model import Cause

LINES = 10
PATIENCE = 5.0  # seconds to wait for the complete log: a process that setup left in the background may hold it open
TOLD_WITHIN = 120.0  # seconds to try to reach the keeper: the name service may be down for a while


def main(arguments):
    """Sends the last lines of LOG to the keeper. Waits before for the file LOG.whole, which says that LOG is complete. If the keeper cannot be reached, the pod
    prints these lines last, and KubeRay's events and the pod's status show them."""
    until = time.monotonic() + PATIENCE
    while not os.path.exists(arguments[0] + ".whole") and time.monotonic() < until:
        time.sleep(0.01)
    with open(arguments[0], "rb") as f:
        lines = f.read().decode("utf-8", "replace").strip().splitlines()[-LINES:]
    text = "setup failed on %s: %s" % (os.uname().nodename, "; ".join(lines) or "it printed nothing")
    error = tell("/v1/end", {"cause": Cause.START_FAILED, "message": text, "by": os.uname().nodename}, TOLD_WITHIN)
    if error is not None:
        sys.stderr.write("the keeper could not be notified (%s): %s\n" % (error, text))
