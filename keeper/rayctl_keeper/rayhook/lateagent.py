"""What is changed in the start of a worker node that is no pod: its dashboard agent begins some seconds after its raylet.

The agent imports for 1.5 s of a processor, while the node's first tasks wait for the same processors: for the agent of runtime environments and for worker
processes, to which Ray gives a lower priority (RAY_worker_niceness, 15). Nobody needs the dashboard agent of a worker node for them: it is asked for the node's
figures and logs. Pods keep theirs, because KubeRay's probes ask it; the head's submits the driver."""

import os
import subprocess

WORKERS_FIRST = 3  # seconds
OPTION = "--dashboard_agent_command="
SCRIPT = "#!/bin/sh\nsleep %d\nexec \"$@\"\n" % WORKERS_FIRST


def change(directory):
    """directory: where a script may be written."""
    try:
        from ray._private import ray_constants, services
        spawn, raylet = services.start_ray_process, ray_constants.PROCESS_TYPE_RAYLET
    except (ImportError, AttributeError):
        return
    path = os.path.join(directory, "agent.sh")
    try:
        with open(path, "w") as f:
            f.write(SCRIPT)
    except OSError:
        return

    def start(command, process_type, *args, **kwargs):
        return spawn(later(command, path) if process_type == raylet else command, process_type, *args, **kwargs)

    services.start_ray_process = start


def later(command, path):
    """The raylet's command, whose agent is started by the script; as it was if it has no such option. The script becomes the agent: its process id stays."""
    prefix = OPTION + subprocess.list2cmdline(["/bin/sh", path]) + " "
    return [prefix + each[len(OPTION):] if each.startswith(OPTION) else each for each in command]
