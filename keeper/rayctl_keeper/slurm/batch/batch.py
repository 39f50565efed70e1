"""What the batch script executes: `keeper.pyz slurm-batch RUN NONCE [inside]`. It starts the role slurm-start, which becomes the keeper, and looks after a keeper that is killed.

With `inside` the job is somebody else's allocation, and the batch script a step of it (slurm.job: current).

Slurm signals only the batch script itself (--signal=B:), which is this process: signals are passed on.
"""

import os
import signal
import subprocess
import sys

from rayctl_keeper import program
from rayctl_keeper.host import process
from rayctl_keeper.slurm.controller import commands


def main(arguments):
    """Entry point; the keeper's exit code."""
    keeper = None
    if arguments[2:]:
        os.environ[commands.INSIDE] = arguments[1]

    def pass_on(number, _frame):
        if keeper is not None and keeper.poll() is None and not commands.inside():  # a step's signal is for all of its processes
            keeper.send_signal(number)

    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    process.become_subreaper()  # of the keeper's srun, see killed.end_orphans
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1,))  # Slurm's warning may come before the keeper takes it: it waits until then (run/keeper.py)
    keeper = subprocess.Popen([sys.executable, "-E", "-s"] + program.command("slurm-start", *arguments))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGUSR1,))
    code = keeper.wait()
    if code >= 0:
        return code
    if -code in (signal.SIGTERM, signal.SIGINT):  # Slurm ends the job before there is a keeper, which takes these signals: what follows is Slurm's to decide
        return 128 - code
    from rayctl_keeper.slurm.batch import killed
    killed.conclude_attempt(os.path.abspath(arguments[0]))
    return 0
