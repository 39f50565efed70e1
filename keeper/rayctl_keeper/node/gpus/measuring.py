"""The supervisor's side of node/gpus/gpus.py: the process that measures a node's GPUs, and its reports."""

import json
import os
import subprocess
import sys

from rayctl_keeper import program
from rayctl_keeper.node.gpus import gpus, nvml

FILE = "gpus.json"  # in the node's directory of the run directory


class Measuring:
    """None of it keeps a node from starting, or from ending."""

    def __init__(self, orders, member, directory, env):
        """env is Ray's: it has the GPUs that Ray sees."""
        command = [sys.executable, "-S", "-E"] + program.command("gpus", str(int(member.group["gpus"])), str(gpus.period_of(orders)))
        known = dict(os.environ, **{name: env[name] for name in nvml.VISIBLE if name in env})
        kept = {name: known[name] for name in nvml.VISIBLE + ("PATH", "LD_LIBRARY_PATH", "RAYCTL_MARK") if name in known}
        self._child, self._rest = None, b""
        try:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
                                           env=dict(kept, RAYCTL_NODE_DIR=directory), start_new_session=True)
        except OSError:
            pass  # the machine can start no more processes: Ray reports that itself

    def fds(self):
        """File descriptors to wait for."""
        return [] if self._child is None else [self._child.stdout.fileno()]

    def take(self, ready):
        """The last report that has come; None: none, or the process has ended."""
        if not set(self.fds()) & set(ready):
            return None
        read = os.read(self._child.stdout.fileno(), 4096)
        if not read:
            self.close()
            return None
        *lines, self._rest = (self._rest + read).split(b"\n")  # we may not have read for long, as while the run directory's file system hung
        return json.loads(lines[-1].decode()) if lines else None

    def close(self):
        """The process ends at its next report, if nobody ends it before."""
        if self._child is not None:
            self._child.stdout.close()
        self._child = None


def publish(place, report):
    """Writes a report into its file; on a full disk the next one."""
    path = os.path.join(place, FILE)
    try:
        with open(path + ".new", "w") as f:
            json.dump(report, f)
        os.replace(path + ".new", path)
    except OSError:
        pass
