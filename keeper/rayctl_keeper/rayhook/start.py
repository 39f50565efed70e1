"""`python keeper.pyz ray start ...` is `python -m ray.scripts.scripts start ...`.

With fast start (ray.fastStart in docs/cluster-file.md, RAYCTL_FAST_START here) it takes less than half of the processor time, and RAY_START_HOOK changes
functions inside `ray start`. Importing Ray's command line takes 1.2 s of a processor (Ray 2.60), 0.7 of them for three groups of commands that
`ray start` has no use for. Ray imports them last and goes on without those that cannot be imported. Without fast start nothing of Ray is changed but the commands of its agents (reserve.py)
and of its workers (workers.py): a worker waits here for the head's GCS, and Ray begins.
"""

import os
import signal
import socket
import sys
import time

from rayctl_keeper.host import headfile
from rayctl_keeper.rayhook import leave, ownsockets, reserve, unseen, waiting, workers

UNUSED = ("ray.util.state.state_cli", "ray.dashboard.modules.job.cli", "ray.serve.scripts")
SHARED = ("/tmp", "/var/tmp")  # Slurm sets TMPDIR=/tmp
OURS = ("RAY_START_HOOK", "RAYCTL_GCS", "RAYCTL_GCS_WAIT", "RAYCTL_JOB")


def starts_fast(wish):
    """Returns whether to change functions of Ray. The setting is always, never, or a list of versions. run/gang/gang.py has the same rule."""
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
    """Prepares an unchanged `ray start`. It restores the user's environment, reaps orphans in a pod, and makes a worker wait for the head's GCS. A head gets a
    TMPDIR in the node's directory instead of the machine's: a killed dashboard leaves a directory of Python's multiprocessing there."""
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
    """Forks and returns in the child. The parent, the first process of a pod, reaps all orphans, forwards signals to the child, and exits with its exit code. This
    is needed because Ray takes zombies for living processes."""
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


def find_head(addresses):
    """Where GCS and dashboard choose their ports: the head tells the others, which wait for it. addresses: see headfile.take."""
    if addresses is None:
        return
    if "--head" in sys.argv:
        addresses.announce(reserve.port(reserve.CLIENT))
        return
    gcs = addresses.learn(float(os.environ.get("RAYCTL_GCS_WAIT") or 600))
    os.environ.update(RAY_ADDRESS=gcs, RAYCTL_GCS=gcs)
    sys.argv = ["--address=" + gcs if a.startswith("--address=") else a for a in sys.argv]


def wait_for_gcs(address, limit):
    """Waits until the GCS listens, at most limit seconds, because `ray start` itself would fail after a shorter time."""
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
    sys.argv = ["ray"] + arguments  # the program name in Ray's messages
    leave.take()
    settings = waiting.take()
    addresses = headfile.take(os.environ, arguments)
    fast = starts_fast(os.environ.pop("RAYCTL_FAST_START", "always"))
    if addresses is not None and reserve.possible():
        sys.argv = reserve.reserve(sys.argv, (reserve.CLIENT,) + reserve.AGENTS)
    unseen.watch(arguments, addresses is None)
    if fast:
        scripts = commands()  # while the head starts
        find_head(addresses)
    else:
        find_head(addresses)
        leave_alone()
        scripts = all_commands()
    reserve.change(os.environ.get("RAYCTL_NODE_DIR", ""))
    if headfile.temp_dir(arguments):  # no pod, which has one node
        ownsockets.change(os.environ.get("RAYCTL_NODE_DIR", ""))
    if os.environ.get("RAYCTL_NODE_DIR"):
        workers.change(os.environ["RAYCTL_NODE_DIR"], fast)
    waiting.begin(settings)
    unseen.tell_ends(scripts)
    scripts.main()
