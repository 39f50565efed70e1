"""The program that the batch script of a companion job executes: `keeper.pyz slurm-companion RUN PLACE NAME SERIAL...`. It starts one srun, which runs the supervisor
of one node, or the supervisors of an early head's gang. A job for several nodes is a job array, in which each element has one node.

Slurm sends this program a signal before the job's time limit, and before a preemption if the site has set that (PreemptParameters=send_user_signal). Then the keeper
makes Ray drain the node."""

import os
import signal
import subprocess
import time

from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.node.supervisor import OF_THE_GANG
from rayctl_keeper.run.nodes.step import step_command
from rayctl_keeper.slurm.attempts.after import load
from rayctl_keeper.slurm.companions.submission import given, leaves, own_node
from rayctl_keeper.slurm.controller import allocation, commands
from rayctl_keeper.state.model import Cause

UNKNOWN = 30.0  # seconds until the end of the job that are assumed if Slurm does not report its time


def main(arguments):
    """Entry point; the exit code."""
    _, place, *nodes = arguments
    name, serial = own_node(nodes)
    if os.path.exists(os.path.join(place, "result.json")) or not os.path.exists(given(place, name, serial)):
        print("the cluster has ended: nothing is started")
        return 0
    gang, components = name == GANG, int(os.environ.get("SLURM_HET_SIZE") or 0)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_ARRAY_") and k not in commands.OF_ITS_TASKS + (commands.OF_FIRST_COMPONENT if components else ())}
    environ.update(load(given(place, name, serial)), RAYCTL_SERIAL="0" if gang else serial)
    command = step_command(load(os.path.join(place, "orders.json")), place, environ, print, OF_THE_GANG if gang else "--slurm=" + name)
    command = [argument for argument in command if not argument.startswith("--het-group=")]
    if components:
        command.insert(1, "--het-group=" + ",".join(str(n) for n in range(components)))
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    step = subprocess.Popen(command, env=environ, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, signals))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: step.send_signal(got))
    signal.signal(signal.SIGUSR1, lambda *_: warn(place, name, serial))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    code = step.wait()
    return code if code >= 0 else 128 - code


def warn(place, name, serial):
    """Writes a file for the keeper, because the keeper may accept connections from its own host only. The supervisor reads the file, too, and does not start Ray again."""
    try:
        with open(leaves(place, name, serial), "w") as f:
            f.write("%f %s\n" % ends())
    except OSError as error:
        print("the keeper cannot be notified that this node is going to be taken away: %s" % error, flush=True)


def ends(answer=None):
    """When the job ends, in epoch seconds, and for which cause. answer: squeue's output, for tests."""
    found = allocation.warning(answer or commands.ask("squeue", "--noheader", "--format=" + allocation.ENDS, "--jobs=" + own_id()) or "")
    if not found:
        return time.time() + UNKNOWN, Cause.PREEMPTED
    cause, end, _ = found
    return max(time.time() + 1.0, end), cause


def own_id():
    """This job's id for Slurm's commands. An array's own number would mean all of its elements."""
    array, element = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return "%s_%s" % (array, element) if array and element else os.environ["SLURM_JOB_ID"]
