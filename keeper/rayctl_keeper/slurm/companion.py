"""What the batch script of a companion job becomes: `keeper.pyz slurm-companion RUN PLACE NAME SERIAL`: one srun with the supervisor of one node, or with those of
an early head's gang."""

import os

from rayctl_keeper.node.members import GANG
from rayctl_keeper.node.supervisor import OF_THE_GANG
from rayctl_keeper.run.step import step_command
from rayctl_keeper.slurm.after import load
from rayctl_keeper.slurm.companions import given
from rayctl_keeper.slurm.start import OF_FIRST_COMPONENT, OF_ITS_TASKS


def main(arguments):
    """Entry point; returns only if there is nothing to do any more."""
    _, place, name, serial = arguments
    if os.path.exists(os.path.join(place, "result.json")) or not os.path.exists(given(place, name, serial)):
        print("the cluster has ended: nothing is started")
        return 0
    gang, components = name == GANG, int(os.environ.get("SLURM_HET_SIZE") or 0)
    environ = {k: v for k, v in os.environ.items() if k not in OF_ITS_TASKS + (OF_FIRST_COMPONENT if components else ())}
    environ.update(load(given(place, name, serial)), RAYCTL_SERIAL="0" if gang else serial)
    command = step_command(load(os.path.join(place, "orders.json")), place, environ, print, OF_THE_GANG if gang else "--slurm=" + name)
    command = [argument for argument in command if not argument.startswith("--het-group=")]
    if components:
        command.insert(1, "--het-group=" + ",".join(str(n) for n in range(components)))
    os.execvpe(command[0], command, environ)
