"""Whether Ray killed a stopped driver that had not ended in its grace: only the log of the job's supervisor has that (Ray 2.60, job_supervisor.py)."""

import glob
import os

from rayctl_keeper.node import nodedir
from rayctl_keeper.ray.dashboard import Refused, Unreachable

WORDS = b"force-killed with SIGKILL"
TAIL = 16 << 10


def tell(end, info, directories, dashboard):
    """The End of a stopped driver, whose message has that Ray killed it."""
    if info["status"] == "STOPPED" and WORDS in _log(info, directories, dashboard):
        end.message += "; its driver had not ended when its grace was over, and Ray killed it"
    return end


def _log(info, directories, dashboard):
    """The end of the supervisor's log: of a node on this host, else over HTTP. b"" if it cannot be had."""
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
