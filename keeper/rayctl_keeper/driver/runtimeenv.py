"""Why a runtime environment could not be made, where Ray's message about the job does not have it: in the log of the agent that makes them."""

import glob
import os
import re

from rayctl_keeper.driver import rayjob
from rayctl_keeper.node.files import nodedir
from rayctl_keeper.ray.dashboard import Refused, Unreachable

AGENT = "runtime_env_agent.err"
VAGUE = re.compile(r"Internal Server Error|network problems|non-ok status code")  # Ray 2.60, for an exception in the agent itself
TAIL = 16 << 10


def explain(end, info, directories, dashboard, driver_log, log_file):
    """For a program that did not start, for example because its runtime environment cannot be made: appends Ray's message to its log. Returns the End, with the reason."""
    why = agents_words(info.get("message") or "", directories, dashboard)
    driver_log.instead(log_file, rayjob.whole_message(info) + why)
    return rayjob.not_started(why, end.message.partition(" did not start")[0]) if why else end


def agents_words(message, directories, dashboard):
    """The end of the agent's log: of a node on this host, else of the head over HTTP. b"" if the message already has the cause, or the log cannot be read."""
    if not VAGUE.search(message):
        return b""
    words = b"".join(_tail(path) for path in _paths(directories)) or _over_http(dashboard)
    return b"\nThe end of Ray's %s:\n%s" % (AGENT.encode(), words) if words.strip() else b""


def _paths(directories):
    name = os.path.join("session_2*", "logs", AGENT)
    return [path for directory in directories for path in glob.glob(os.path.join(glob.escape(nodedir.rays(directory)), name))]


def _tail(path):
    try:
        with open(path, "rb") as f:
            f.seek(max(0, os.path.getsize(path) - TAIL))
            return f.read()
    except OSError:
        return b""


def _over_http(dashboard):
    try:
        head = next((node["node_id"] for node in dashboard.state("nodes", timeout=10.0) if node.get("is_head_node")), "")
        return dashboard.request("GET", dashboard.log_path("file", head, AGENT, lines=200), 10.0)[-TAIL:] if head else b""
    except (Refused, Unreachable):
        return b""
