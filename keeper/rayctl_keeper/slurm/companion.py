"""What the batch script of a companion job becomes: `keeper.pyz slurm-companion RUN PLACE NAME SERIAL`: one srun with the supervisor of one node."""

import os

from rayctl_keeper.run.step import step_command
from rayctl_keeper.slurm.after import load
from rayctl_keeper.slurm.companions import given
from rayctl_keeper.slurm.start import OF_ITS_TASKS


def main(arguments):
    """Entry point; returns only if there is nothing to do any more."""
    _, place, name, serial = arguments
    if os.path.exists(os.path.join(place, "result.json")) or not os.path.exists(given(place, name, serial)):
        print("the cluster has ended: nothing is started")
        return 0
    environ = {k: v for k, v in os.environ.items() if k not in OF_ITS_TASKS}
    environ.update(load(given(place, name, serial)), RAYCTL_SERIAL=serial)
    command = step_command(load(os.path.join(place, "orders.json")), place, environ, print, "--slurm=" + name)
    command = [argument for argument in command if not argument.startswith("--het-group=")]
    os.execvpe(command[0], command, environ)
