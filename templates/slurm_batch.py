"""What the batch script executes: `slurm_batch.py RUN NONCE`. It starts slurm_start.py, which becomes the keeper, and looks after a keeper that is killed.

Slurm signals only the batch script itself (--signal=B:), which is this process: signals are passed on.
"""

import os
import signal
import subprocess
import sys

if sys.version_info < (3, 8):  # before what it could not even parse is started
    sys.exit("%s is Python %d.%d, and rayctl needs 3.8 or later: set ray.python" % ((sys.executable,) + tuple(sys.version_info)[:2]))

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    """Entry point; the keeper's exit code."""
    keeper = None

    def pass_on(number, _frame):
        if keeper is not None and keeper.poll() is None:
            keeper.send_signal(number)

    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    keeper = subprocess.Popen([sys.executable, "-E", "-s", os.path.join(HERE, "slurm_start.py")] + sys.argv[1:])
    code = keeper.wait()
    if code >= 0:
        return code
    import slurm_killed
    slurm_killed.conclude_attempt(os.path.abspath(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
