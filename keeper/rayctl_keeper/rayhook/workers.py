"""Has the raylet start worker processes with a runtime environment, as all of a submitted job's are, by setup_worker.py, which enters the job's directory.

With fast start that program also stands for Ray's own; without it, and where Ray's runtime environments have other parts than known, Ray's own follows it."""

import inspect
import os
import pkgutil
import subprocess

from rayctl_keeper.rayhook import setup_worker

OPTION = "--python_worker_command="
# The raylet knows the program by "setup_worker.py" in its name, and leaves it out for a worker that has no runtime environment (worker_pool.cc).
FAST, PLAIN = "setup_worker.py", setup_worker.PLAIN


def change(directory, fast):
    """directory: the node's, where the program may be written. Nothing is changed where Ray has other functions than expected."""
    try:
        from ray._private import ray_constants, services
        spawn, raylet = services.start_ray_process, ray_constants.PROCESS_TYPE_RAYLET
        own = os.path.join(os.path.dirname(os.path.abspath(services.__file__)), "workers", "setup_worker.py")
    except (ImportError, AttributeError):
        return
    path = os.path.join(directory, FAST if fast and _known() else PLAIN)
    try:
        with open(path, "wb") as f:
            f.write(pkgutil.get_data("rayctl_keeper.rayhook", "setup_worker.py"))
    except OSError:
        return

    def start(command, process_type, *args, **kwargs):
        return spawn(begun_by(command, own, path) if process_type == raylet else command, process_type, *args, **kwargs)

    services.start_ray_process = start


def _known():
    """Whether setup_worker.py knows all that a runtime environment may have in this Ray."""
    try:
        from ray._private.runtime_env.context import RuntimeEnvContext
        return set(inspect.signature(RuntimeEnvContext.__init__).parameters) - {"self"} == set(setup_worker.KNOWN)
    except (ImportError, AttributeError, ValueError):
        return False


def begun_by(command, own, path):
    """The raylet's command, whose workers begin in the program at path instead of Ray's own; as it was if that is not in it."""
    old, new = (" %s " % subprocess.list2cmdline([program]) for program in (own, path))
    return [each.replace(old, new, 1) if each.startswith(OPTION) else each for each in command]
