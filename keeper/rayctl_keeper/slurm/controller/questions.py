"""Slurm's commands about companion jobs, as the keeper runs them."""

import os
import subprocess

from rayctl_keeper.host import process
from rayctl_keeper.slurm.controller import commands, listing

PATIENCE = 60.0  # seconds for one of Slurm's commands: the controller may be busy
ENDING = ("COMPLETING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "REVOKED")
# Of the job that we are in: sbatch would take them for settings of the new one, or pass them on to it.
OURS = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI", "RAYCTL_")
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_SACK_SOCKET")


class Questions:
    """Of the jobs that have this name."""

    def __init__(self, name):
        self._name = name

    def run(self, *argv):
        """Exit code, output and last words of a command."""
        environ = {k: v for k, v in commands.environment().items() if k in KEPT or not k.startswith(OURS)}
        environ.update(commands.TIMES if argv[0] == "squeue" else {})
        try:
            code, out, err = process.run(argv, environ, PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, "", "%s: %s" % (argv[0], error)
        words = err.decode("utf-8", "replace").strip().splitlines()
        return code, out.decode("utf-8", "replace"), words[-1] if words else ""

    def listed(self):
        """The jobs, each as its worst component; None: not known."""
        rows = self.rows()
        return None if rows is None else listing.whole(rows, ENDING)

    def rows(self):
        """The components of the jobs, and the elements of arrays each by itself; None: not known."""
        code, out, _ = self.run("squeue", "--me", "--states=all", "--noheader", "--array", "--name=" + self._name, "--format=" + listing.FORMAT)
        return None if code else listing.rows(out)

    def clusters_end(self):
        """When the job that we are in ends by its time limit, in epoch seconds; 0.0: Slurm has no such time; None: not known."""
        code, out, _ = self.run("squeue", "--noheader", "--format=%e", "--jobs=" + os.environ.get("SLURM_JOB_ID", ""))
        return None if code else max([listing.moment(text) for text in out.split()] + [0.0])
