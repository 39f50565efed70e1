"""The one job of all nodes but an early head, in the place of a member among companion jobs."""

import os

from rayctl_keeper.node.groups.members import GANG


class GangJob:
    """What the supervisors report, a line each, is in the job's output: one file for all nodes, which is opened anew each time, for only then NFS has
    what others have written (close-to-open consistency, nfs(5))."""

    name, group = GANG, {"name": GANG}

    def __init__(self, run_dir, serial):
        self.serial, self.released, self.message = serial, False, ""
        self.died = self.hopeless = False
        self.ending = ""  # Slurm's state of the job that has ended
        self._path, self._read = os.path.join(run_dir, "nodes", GANG, "companion.%d.out" % serial), 0

    def lines(self):
        """The whole lines that were written since."""
        try:
            with open(self._path, "rb") as f:
                f.seek(self._read)
                text = f.read()
        except OSError:
            return []
        whole = text[:text.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.splitlines()
