"""What the batch script executes: `keeper.pyz slurm-batch RUN NONCE`. It starts the role slurm-start, which becomes the keeper, and looks after a keeper that is killed.

Slurm signals only the batch script itself (--signal=B:), which is this process: signals are passed on.
"""

import os
import signal
import subprocess
import sys

from rayctl_keeper import program


def main(arguments):
    """Entry point; the keeper's exit code."""
    keeper = None

    def pass_on(number, _frame):
        if keeper is not None and keeper.poll() is None:
            keeper.send_signal(number)

    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    keeper = subprocess.Popen([sys.executable, "-E", "-s"] + program.command("slurm-start", *arguments))
    code = keeper.wait()
    if code >= 0:
        return code
    from rayctl_keeper.slurm import killed
    killed.conclude_attempt(os.path.abspath(arguments[0]))
    return 0
