"""`python keeper.pyz ray start ...` is `python -m ray.scripts.scripts start ...`.

With fast start (ray.fastStart in docs/reference.md, RAYCTL_FAST_START here) it takes less than half of the processor time, and RAY_START_HOOK changes
functions inside `ray start`. Importing Ray's command line takes 1.2 s of a processor (Ray 2.60), 0.7 of them for three groups of commands that
`ray start` has no use for. Ray imports them last and goes on without those that cannot be imported. Without fast start nothing of Ray is changed: a worker
waits here for the head's GCS, and Ray begins.
"""

import os
import signal
import socket
import sys
import time

from rayctl_keeper.rayhook import leave

UNUSED = ("ray.util.state.state_cli", "ray.dashboard.modules.job.cli", "ray.serve.scripts")
SHARED = ("/tmp", "/var/tmp")  # Slurm sets TMPDIR=/tmp
OURS = ("RAY_START_HOOK", "RAYCTL_GCS", "RAYCTL_GCS_WAIT", "RAYCTL_JOB")


def starts_fast(wish):
    """Whether to change anything: always, never, or for the versions listed. run/gang.py has the same rule."""
    if wish in ("always", "never"):
        return wish == "always"
    from importlib import metadata
    try:
        return metadata.version("ray") in wish.split(",")
    except metadata.PackageNotFoundError:
        return False


def commands():
    """Ray's command line, without UNUSED."""
    sys.modules.update(dict.fromkeys(UNUSED))  # None makes `import` raise ImportError
    try:
        from ray.scripts import scripts
    except ImportError:
        scripts = None  # a Ray that needs one of them
    finally:
        for name in UNUSED:
            sys.modules.pop(name, None)
    return scripts or all_commands()


def all_commands():
    """Ray's command line as it is."""
    from ray.scripts import scripts
    return scripts


def leave_alone():
    """What `ray start` needs to work by itself: a GCS that a worker can reach, the user's environment, a parent that waits for its orphans, and instead of
    the machine's TMPDIR one that goes with the node, for the head's dashboard: Python's multiprocessing leaves a directory there when it is killed."""
    gcs, limit = os.environ.get("RAYCTL_GCS", ""), float(os.environ.get("RAYCTL_GCS_WAIT") or 600)
    users = os.environ.pop("RAYCTL_USER_START_HOOK", "")
    for name in OURS:
        os.environ.pop(name, None)
    if users:
        os.environ["RAY_START_HOOK"] = users
    if os.getpid() == 1:
        be_init()
    if "--head" not in sys.argv:
        wait_for_gcs(gcs, limit)
    elif os.environ.get("TMPDIR", "/tmp").rstrip("/") in SHARED:
        os.environ["TMPDIR"] = os.path.join(os.environ["RAYCTL_NODE_DIR"], "tmp")
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)


def be_init():
    """Returns in a child. The first process of a pod stays, waits for all that ends below it, passes signals on, and ends as the child does: Ray takes
    zombies for living processes."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return

    def pass_on(got, _frame):
        if leave.active() and not leave.cluster_stays():
            os._exit(leave.GOES)
        os.kill(child, got)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def wait_for_gcs(address, limit):
    """Until somebody listens there; `ray start` would give up."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + limit
    while port and time.monotonic() < until:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
            return
        except OSError:
            time.sleep(0.05)


def main(arguments):
    """Entry point."""
    sys.argv = ["ray"] + arguments  # what its messages call it
    leave.take()
    if starts_fast(os.environ.pop("RAYCTL_FAST_START", "always")):
        commands().main()
    else:
        leave_alone()
        all_commands().main()
