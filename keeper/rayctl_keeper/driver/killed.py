"""Finds out whether Ray killed a stopped driver because its grace was over. Only the log of the job's supervisor shows this (Ray 2.60, job_supervisor.py)."""

import glob
import os

from rayctl_keeper.node.files import nodedir
from rayctl_keeper.ray.dashboard import Refused, Unreachable
from rayctl_keeper.state.model import JobState

WORDS = b"force-killed with SIGKILL"
TAIL = 16 << 10


def tell(end, info, directories, dashboard):
    """Returns the End of a stopped driver; if Ray killed the driver, its message includes that."""
    if info["status"] == JobState.STOPPED and WORDS in _log(info, directories, dashboard):
        end.message += "; its driver had not ended when its grace was over, and Ray killed it"
    return end


def _log(info, directories, dashboard):
    """Returns the last bytes of the supervisor's log, read from the disk if the node is on this host, else over HTTP. b"" if neither is possible."""
    name = os.path.join("jobs", "supervisor-%s.log" % info.get("submission_id"))
    for directory in directories:
        for path in glob.glob(os.path.join(glob.escape(nodedir.rays(directory)), "session_2*", "logs", glob.escape(name))):
            try:
                with open(path, "rb") as f:
                    f.seek(max(0, os.path.getsize(path) - TAIL))
                    return f.read()
            except OSError:
                pass
    try:
        node = info.get("driver_node_id")
        return dashboard.request("GET", dashboard.log_path("file", node, name, lines=20), 5.0) if node else b""
    except (Refused, Unreachable):
        return b""
