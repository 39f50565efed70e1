"""Sentences about a process of Ray that ended although rayctl did not end it."""

import re
import signal

SOMEBODY = "of somebody on this host, or of the driver,"
BY_SIGTERM = "%%s was ended by SIGTERM, which rayctl has not sent: `ray stop` or `pkill` %s does that" % SOMEBODY
BY_SIGKILL = "%%s was ended by SIGKILL, which rayctl has not sent: `ray stop` or `pkill -9` %s does that, or the kernel when memory is used up" % SOMEBODY
WITH_AGENT = "raylet has ended because its %%s has: `ray stop` or `pkill` %s does that, or the kernel when memory is used up" % SOMEBODY
# What a process writes into its log when it gets SIGTERM: src/ray/raylet/main.cc and src/ray/gcs/gcs_server_main.cc (Ray 2.9 to 2.60). A drained raylet also ends
# with exit code 0, and that is no failure. So does a raylet whose agent has ended, and that is a failure (src/ray/raylet/agent_manager.cc).
SIGTERM = {"raylet": re.compile(r"main\.cc:\d+: (?:Raylet )?received SIGTERM"), "gcs_server": re.compile("GCS server received SIGTERM")}
AGENT = re.compile(r"because one Ray agent failed, agent_name = (\w+)")


def by_log(name, log):
    """For a process with exit code 0: the sentence, if its log shows that somebody else ended it; else ""."""
    if SIGTERM[name].search(log):
        return BY_SIGTERM % name
    agent = AGENT.search(log) if name == "raylet" else None
    return WITH_AGENT % agent.group(1) if agent else ""


def by_code(name, code):
    """The sentence for a process with this exit code; as in Python, a negative code is a signal."""
    return BY_SIGKILL % name if code == -signal.SIGKILL else "its %s ended with exit code %d" % (name, code)
