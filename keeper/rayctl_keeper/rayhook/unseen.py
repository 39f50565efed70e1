"""Ends `ray start --block` for two ends that it does not see (ray/scripts/scripts.py, Ray 2.60).

- The dashboard's port was chosen before, as one of slurm.ports, and is another process' by then. The dashboard writes that into its error log and stays, and so
  `ray start` waits for ever.
- Somebody ends the raylet or the GCS by SIGTERM: `ray stop` of somebody on the host, or `pkill ray` of a driver. `ray start` takes that for wanted, and nobody
  is left who would tell what has become of the node's driver.

Whoever started `ray start` reads the sentence and ends Ray's other processes; run/cluster.py starts the node, or the cluster, again.
"""

import os
import re
import sys
import threading
import time

from rayctl_keeper.host import headfile, process

LOOK, LIMIT = 0.2, 600.0  # seconds between two looks for the dashboard, and for all of them
PAUSE = 2.0  # seconds between two looks at Ray's processes
LATE = 10.0  # seconds: if `ray start` ends them itself, or sees another end, it has ended in that time
TAKEN = re.compile(r"^.*(?:address already in use|errno:? 98).*$", re.IGNORECASE | re.MULTILINE)
# What a process writes into its log when it gets SIGTERM: src/ray/raylet/main.cc and src/ray/gcs/gcs_server_main.cc (Ray 2.9 to 2.60). A raylet that was drained ends
# by itself, which is no failure.
SIGTERM = {"raylet": re.compile(r"main\.cc:\d+: (?:Raylet )?received SIGTERM"), "gcs_server": re.compile("GCS server received SIGTERM")}


def watch(arguments, fixed):
    """Looks at both in threads, on nodes that a supervisor has started: in a pod the kubelet looks. arguments: those of `ray start`. fixed: its ports were chosen before."""
    temp, head = headfile.temp_dir(arguments), "--head" in arguments
    if not temp or not process.LINUX:
        return
    if head and fixed:
        threading.Thread(target=await_dashboard, args=(temp,), daemon=True, name="dashboard").start()
    threading.Thread(target=await_end, args=(temp, ("raylet", "gcs_server") if head else ("raylet",)), daemon=True, name="ends").start()


def end(sentence):
    """Ends this process."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
    os._exit(1)


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


def await_end(temp, names):
    """Waits until one of these processes of Ray has ended by SIGTERM."""
    known = {}
    while True:
        time.sleep(PAUSE)
        if len(known) < len(names):
            known.update((name, pid) for pid, name in children() if name in names)
        for name, pid in known.items():
            if not process.lives(pid):
                time.sleep(LATE)
                if SIGTERM[name].search(headfile.log_of(temp, name + ".out")):
                    end("%s was ended by SIGTERM, which rayctl has not sent: `ray stop` or `pkill` of somebody on this host, or of the driver, does that" % name)
                return


def children():
    """Our children's pids, and the names of their programs."""
    for pid, arguments in headfile.children(os.getpid()):
        yield pid, os.path.basename(arguments[0]).decode("utf-8", "replace")
