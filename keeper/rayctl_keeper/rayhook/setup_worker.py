"""Stands for ray/_private/workers/setup_worker.py with fast start: sets the variables of a runtime environment and becomes the worker.

Ray's own program imports Ray for that, so a worker with a runtime environment, as the one that starts a job's driver, imports Ray twice: 0.8 s of a processor
more (Ray 2.60). This file runs alone, as a copy in the node's directory (hook.py). What it does not know it leaves to Ray's own program.
"""

import importlib.util
import json
import os
import re
import shlex
import sys

# The parameters of RuntimeEnvContext, ray/_private/runtime_env/context.py (Ray 2.60).
KNOWN = ("command_prefix", "env_vars", "py_executable", "override_worker_entrypoint", "java_jars")


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


def main(arguments):
    """Entry point."""
    text, rest = taken(arguments, "--serialized-runtime-env-context")
    language, worker = taken(rest, "--language")
    context = json.loads(text or "{}")
    if language != "PYTHON" or not set(context) <= set(KNOWN) or not sys.platform.startswith("linux"):
        own = rays_own()
        os.execv(sys.executable, [sys.executable, own] + arguments)
    for name, value in (context.get("env_vars") or {}).items():
        os.environ[name] = expanded(value)
    os.execvp("bash", ["bash", "-c", command(context, worker)])


if __name__ == "__main__":
    main(sys.argv[1:])
