"""Begins a worker process with a runtime environment: enters the job's directory, sets the variables of the environment and becomes the worker.

Ray's own program (ray/_private/workers/setup_worker.py) knows no directory of the nodes, so tasks and actors would run in that of the raylet. It also imports Ray
to set the variables, so a worker with a runtime environment, as the one that starts a job's driver, imports Ray twice: 0.8 s of a processor
more (Ray 2.60). With fast start this program therefore stands for it. This file runs alone, as a copy in the node's directory (workers.py). What it does not know, and
under the name PLAIN everything but the directory, it leaves to Ray's own program.
"""

import importlib.util
import json
import os
import re
import shlex
import sys

PLAIN = "plain_setup_worker.py"
# The parameters of RuntimeEnvContext, ray/_private/runtime_env/context.py (Ray 2.60).
KNOWN = ("command_prefix", "env_vars", "py_executable", "override_worker_entrypoint", "java_jars")
DIRECTORY = "RAYCTL_CWD"  # where the driver runs, as driver/rayjob.py and launcher/driverio/entrypoint.go write it
MISSING = ("rayctl: the directory %s, in which the job runs, does not exist on this node: tasks and actors run in %s here, "
           "unless job.cwd or job.workingDir names a directory that all nodes have\n")


def taken(arguments, option):
    """The value of an option, None if it is not there, and the other arguments."""
    value, rest, it = None, [], iter(arguments)
    for argument in it:
        if argument.startswith(option + "="):
            value = argument[len(option) + 1:]
        elif argument == option:
            value = next(it, None)
        else:
            rest.append(argument)
    return value, rest


def expanded(value):
    """As ray._private.utils.update_envs has it: variables, and nothing for those that are not set."""
    return re.sub(r"\$\{[A-Z0-9_]+\}", "", os.path.expandvars(value))


def command(context, worker):
    """What bash runs: RuntimeEnvContext.exec_worker."""
    if context.get("override_worker_entrypoint"):
        worker = [context["override_worker_entrypoint"]] + worker[1:]
    executable = ["exec", context.get("py_executable") or sys.executable]
    return " ".join((context.get("command_prefix") or []) + executable + [shlex.quote(argument) for argument in worker])


def rays_own():
    """The path of Ray's program, without importing Ray."""
    return os.path.join(importlib.util.find_spec("ray").submodule_search_locations[0], "_private", "workers", "setup_worker.py")


def enter(variables, worker, place):
    """Enters the job's directory. A runtime environment with a working_dir leaves it again for that one. Where this node does not have the directory the process stays in
    the raylet's, and the job's output has a note. place: the node's directory."""
    directory = (variables.get(DIRECTORY) or "").replace("%27", "'").replace("%24", "$").replace("%25", "%")
    if not directory:
        return
    try:
        os.chdir(directory)
    except (OSError, ValueError):
        if once(place, variables.get("RAYCTL_SUBMISSION_ID") or os.environ.get("RAY_JOB_ID", ""), directory):
            try:
                here = os.getcwd()
            except OSError:
                here = "a directory that was removed"
            note(MISSING % (directory, here), worker)


def once(place, job, directory):
    """Whether this is the first worker of the job here that lacks the directory. On the driver's node that is the process that starts the driver, and the driver's shell tells the user."""
    import hashlib
    key = hashlib.sha256(json.dumps([job, directory]).encode()).hexdigest()
    try:
        os.close(os.open(os.path.join(place, "nodir-" + key), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    except OSError:
        return False


def note(text, worker):
    """Shows a line in the output of the job's driver: Ray's log monitor takes it from a file that has the name and the first line of a worker's log."""
    session, temp, job = taken(worker, "--session-name")[0], taken(worker, "--temp-dir")[0], os.environ.get("RAY_JOB_ID", "")
    if not (session and temp and re.match(r"[0-9a-f]+$", job)):
        return
    path = os.path.join(temp, session, "logs", "worker-rayctl-%s-%d.err" % (job, os.getpid()))
    try:
        with open(path, "xb", buffering=0) as f:
            f.write((":job_id:%s\n%s" % (job, text)).encode("utf-8", "replace"))
    except OSError:
        pass


def main(arguments):
    """Entry point."""
    text, rest = taken(arguments, "--serialized-runtime-env-context")
    language, worker = taken(rest, "--language")
    context = json.loads(text or "{}")
    variables, here = context.get("env_vars") or {}, os.path.abspath(__file__)
    knows = os.path.basename(here) != PLAIN and language == "PYTHON" and set(context) <= set(KNOWN) and sys.platform.startswith("linux")
    own = None if knows else rays_own()
    enter(variables, worker, os.path.dirname(here))
    if own:
        os.execv(sys.executable, [sys.executable, own] + arguments)
    for name, value in variables.items():
        os.environ[name] = expanded(value)
    os.execvp("bash", ["bash", "-c", command(context, worker)])


if __name__ == "__main__":
    main(sys.argv[1:])
