"""Ends `ray start --block` for two ends that it does not see (ray/scripts/scripts.py, Ray 2.60).

- The dashboard's port was chosen before, as one of slurm.ports, and is another process' by then. The dashboard writes that into its error log and stays, and so
  `ray start` waits for ever.
- Somebody ends the raylet or the GCS by SIGTERM: `ray stop` of another user of the host's, or `pkill ray` of a driver. `ray start` takes that for wanted, and nobody
  is left who would tell what has become of the node's driver.

Whoever started `ray start` reads the sentence and ends Ray's other processes; run/cluster.py starts the node, or the cluster, again.
"""

import os
import re
import select
import sys
import threading
import time

from rayctl_keeper.host import headfile, process

LOOK, LIMIT = 0.2, 600.0  # seconds between two looks for the dashboard, and for all of them
FIND = 2.0  # seconds between two looks for Ray's processes
LATE = 3.0  # seconds: whoever ends the node ends all of it, and this process in that time
TAKEN = re.compile(r"^.*(?:address already in use|errno:? 98).*$", re.IGNORECASE | re.MULTILINE)
SIGTERM = re.compile(r"received SIGTERM|SIGTERM received", re.IGNORECASE)  # raylet: src/ray/raylet/main.cc


def watch(arguments):
    """Looks at both in threads, on nodes that a supervisor has started. arguments: those of `ray start`."""
    temp = next((a.partition("=")[2] for a in arguments if a.startswith("--temp-dir=")), "")
    logs = os.path.join(temp, "session_latest", "logs")
    tasks = [(await_dashboard, logs)] if "--head" in arguments else []
    for task, argument in tasks + [(await_end, logs)]:
        threading.Thread(target=task, args=(argument,), daemon=True, name=task.__name__).start()


def end(sentence):
    """Ends this process."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
    os._exit(1)


def await_dashboard(logs):
    """Returns when the dashboard listens."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and not headfile.LOG_LINE.search(text_of(logs, "dashboard.log")):
        line = refused(text_of(logs, "dashboard.err"))
        if line:
            end("the dashboard cannot listen: Address already in use: " + line)
        time.sleep(LOOK)


def refused(text):
    """The line of the dashboard's error log which tells that its port is another's, else ""."""
    found = TAKEN.search(text)
    return found.group().strip() if found else ""


def await_end(logs):
    """Waits until one of Ray's two processes has ended by SIGTERM. A raylet that was drained ends by itself, which is no failure."""
    poll, names = select.poll(), {}
    head = "--head" in sys.argv
    while len(names) < 1 + head:
        time.sleep(FIND)
        for name, pid in found():
            if name not in names.values():
                fd = process.pidfd_open(pid)
                if fd is None:
                    return  # an old kernel
                names[fd] = name
                poll.register(fd, select.POLLIN)
    while names:
        for fd, _ in poll.poll():
            poll.unregister(fd)
            name = names.pop(fd)
            time.sleep(LATE)
            if name == "gcs_server" or SIGTERM.search(text_of(logs, name + ".out")):
                end("%s was ended by SIGTERM, which rayctl has not sent: `ray stop` or `pkill` of somebody on this host, or of the driver, does that" % name)


def found():
    """The names and pids of Ray's two processes on this node that are our children."""
    for pid, (parent, _) in process.process_table().items():
        name = os.path.basename(process.arguments_of(pid)[0]).decode("utf-8", "replace") if parent == os.getpid() else ""
        if name in ("raylet", "gcs_server"):
            yield name, pid


def text_of(logs, name):
    """One of the session's logs; "" before there is one. The directory above is the node's alone."""
    try:
        with open(os.path.join(logs, name), encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""
