"""Ends `ray start --block` for ends that it does not see (ray/scripts/scripts.py, Ray 2.60), and tells the keeper of those that it sees in the head's pod.

- The dashboard's port was chosen before, as one of slurm.ports, and is another process' by then. The dashboard writes that into its error log and stays, and so
  `ray start` waits for ever.
- Somebody ends the raylet or the GCS by SIGTERM, or one of the raylet's agents in any way, with which the raylet ends by itself: `ray stop` of somebody on the host, or
  `pkill ray` of a driver. `ray start` takes that for wanted, and nobody is left who would tell what has become of the node's driver.

Whoever started `ray start` reads the sentence and ends Ray's other processes; run/cluster.py starts the node, or the cluster, again. Nobody reads it in a pod, whose
processes end with `ray start`: the head's pod tells the keeper.
"""

import os
import re
import sys
import threading
import time

from rayctl_keeper.host import ended, headfile, process
from rayctl_keeper.rayhook import leave

LOOK, LIMIT = 0.2, 600.0  # seconds between two looks for the dashboard, and for all of them
PAUSE = 2.0  # seconds between two looks at Ray's processes
LATE = 10.0  # seconds: if `ray start` ends them itself, or sees another end, it has ended in that time
TAKEN = re.compile(r"^.*(?:address already in use|errno:? 98).*$", re.IGNORECASE | re.MULTILINE)


def watch(arguments, fixed):
    """Looks at both in threads. arguments: those of `ray start`. fixed: its ports were chosen before, for a node that a supervisor has started."""
    supervised, head = headfile.temp_dir(arguments), "--head" in arguments
    if not process.LINUX or not (supervised or leave.active() or leave.tells()):
        return
    temp = supervised or os.path.join(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray")  # as Ray chooses it
    if supervised and head and fixed:
        threading.Thread(target=await_dashboard, args=(temp,), daemon=True, name="dashboard").start()
    threading.Thread(target=await_end, args=(temp, ("raylet", "gcs_server") if head else ("raylet",), lambda: supervised or leave.stays()), daemon=True, name="ends").start()


def end(sentence):
    """Ends this process."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
    leave.head_ended(sentence)
    os._exit(1)


def tell_ends(scripts):
    """Has `ray start` of the head's pod tell the keeper which of its processes have ended, before it ends itself. Older versions of Ray do not have this function."""
    show = getattr(scripts, "_log_unexpected_subprocess_exit_details", None)
    if show is None or not leave.tells():
        return

    def tell_and_show(deceased, *rest):
        leave.head_ended("; ".join(ended.by_code(str(name), found.returncode) for name, found in deceased))
        show(deceased, *rest)

    scripts._log_unexpected_subprocess_exit_details = tell_and_show


def await_dashboard(temp):
    """Returns when the dashboard listens."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and not headfile.dashboard_port(temp):
        line = refused(headfile.log_of(temp, "dashboard.err"))
        if line:
            end("the dashboard cannot listen: Address already in use: " + line)
        time.sleep(LOOK)


def refused(text):
    """The line of the dashboard's error log which tells that its port is another's, else ""."""
    found = TAKEN.search(text)
    return found.group().strip() if found else ""


def await_end(temp, names, stays=lambda: True):
    """Waits until one of these processes of Ray has ended, and looks whether somebody else has ended it: not `ray start`, as long as that stays. Says the first of the
    names that somebody has ended: `ray stop` ends all of them within seconds."""
    known = {}
    while True:
        time.sleep(PAUSE)
        if len(known) < len(names):
            known.update((name, pid) for pid, name in children() if name in names)
        if not all(process.lives(pid) for pid in known.values()):
            time.sleep(LATE)
            for name in names:
                why = ended.by_log(name, headfile.log_of(temp, name + ".out"))
                if why and stays():
                    end(why)
            return


def children():
    """Our children's pids, and the names of their programs."""
    for pid, arguments in headfile.children(os.getpid()):
        yield pid, os.path.basename(arguments[0]).decode("utf-8", "replace")
