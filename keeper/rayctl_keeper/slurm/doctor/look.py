"""Finds out for doctor whether Ray can be imported on a node: `keeper.pyz slurm-look PLACE`. PLACE has the orders of the cluster. It imports Ray as a supervisor would
start Ray: in the container, after setup, in the environment of the file. It prints two lines. The first is about the container: empty if there is none, else "ok",
"late SECONDS", or "no" and the error. The second is "ray" and the version, or the reason why Ray cannot be imported."""

import json
import os
import re
import subprocess

from rayctl_keeper.node import supervisor
from rayctl_keeper.node.groups import members
from rayctl_keeper.node.start import raystart
from rayctl_keeper.run.nodes import step
from rayctl_keeper.slurm.controller import commands

WITHIN = "within"  # an argument after PLACE: this process runs where Ray would run, in the container
STARTED = "rayctl: started"  # the first line that such a process prints
PATIENCE = 200  # seconds for a container to start; its image may have to be loaded (slurm/site/look.go, lookTime)
IMPORT = 'import ray; print("ray", ray.__version__)'
# The most informative lines about a container that does not start, the best first: of enroot's log, of Apptainer, of Pyxis (v0.20, pyxis_slurmstepd.c).
TELLING = (re.compile(r"\[ERROR\]"), re.compile("FATAL"), re.compile("pyxis: (?!couldn't start container|child |printing )"), re.compile(r"^(?!srun: error: .*[Ee]xit)"))


def main(arguments):
    """Entry point."""
    place = arguments[0]
    with open(os.path.join(place, "orders.json")) as f:
        orders = json.load(f)
    if WITHIN in arguments[1:]:
        print(STARTED, flush=True)
        print(ray(orders, place))
        return 0
    for line in contained(orders, place) if orders["start"].get("container") else ("", ray(orders, place)):
        print(line)
    return 0


def contained(orders, place):
    """The two lines about a container."""
    if orders["start"]["container"]["runtime"] == "pyxis":
        commands.forget_step()  # otherwise srun gives the new step the size of the step in which this process runs
    logged = []
    argv = step.step_command(orders, place, dict(os.environ), logged.append)
    try:
        ran = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return "late %d" % PATIENCE, ""
    except OSError as error:
        return "no %s: %s" % (argv[0], error.strerror), ""
    lines = lines_of(ran.stdout)
    if STARTED in lines:
        return "ok", lines[lines.index(STARTED):][-1]
    return "no " + telling(lines + logged, ran.returncode), ""


def telling(lines, code):
    """The most informative line about the failure."""
    found = [line for pattern in TELLING for line in [line for line in lines if pattern.search(line)][-1:]]
    return found[0] if found else "it exited with code %d" % code


def ray(orders, place):
    """The line about Ray."""
    setup, done = orders["ray"].get("setup"), os.path.join(place, "setup.done")
    command = [orders["ray"]["python"], "-c", IMPORT]
    if setup:
        script = os.path.join(place, "setup.sh")
        with open(script, "w") as f:
            f.write(setup + "\n")
        command = ["bash", "-c", supervisor.SETUP, "setup", script, done] + command
    env = raystart.environment(orders, members.members(orders)[0], place, place, {}, dict(os.environ))
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                             cwd=supervisor.working_directory(orders), timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return "it is not imported within %d s" % PATIENCE
    except OSError as error:
        return "%s: %s" % (command[0], error.strerror)
    lines = lines_of(ran.stdout)
    versions = [line for line in lines if line.startswith("ray ")]
    if ran.returncode == 0 and versions:
        return versions[-1]
    if setup and not os.path.exists(done):
        return "setup exited with code %d: %s" % (ran.returncode, (lines or ["it printed nothing"])[-1])
    return (lines or ["%s exited with code %d" % (command[0], ran.returncode)])[-1]


def lines_of(output):
    """The lines that are not blank, without escape sequences for a terminal."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", output.decode("utf-8", "replace"))
    return [line.strip() for line in text.splitlines() if line.strip()]
