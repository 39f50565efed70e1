"""Reserves the ports of Ray's Python servers, whose numbers stand in command lines seconds before the servers bind them: of the dashboard agent, the agent of runtime
environments and the Ray client server. Every user of the host reads command lines, and Ray sends the cluster's token to these ports.

A socket of ours that is bound and never listens has the port. It has SO_REUSEPORT and not SO_REUSEADDR: then the kernel lets only sockets of the same user with SO_REUSEPORT bind the
port, too (socket(7)). gRPC's servers set that option; Ray switches it off for its agents, and share_port.py switches it on again.
"""

import os
import pkgutil
import socket
import subprocess
import sys

AGENTS = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port", "runtime-env-agent-port")
CLIENT = "ray-client-server-port"
COMMANDS = ("--dashboard_agent_command=", "--runtime_env_agent_command=")  # of the raylet
PROGRAMS = (os.path.join("dashboard", "agent.py"), os.path.join("_private", "runtime_env", "agent", "main.py"))  # what they run, below Ray's package

_held = {}  # option -> socket


def reserve(arguments, options):
    """Returns the arguments of `ray start` with reserved ports in place of those of the options."""
    changed = []
    for argument in arguments:
        option = argument[2:].partition("=")[0]
        if argument.startswith("--") and option in options:
            _held[option] = bound()
            argument = "--%s=%d" % (option, _held[option].getsockname()[1])
        changed.append(argument)
    return changed


def port(option):
    """The port that is reserved for an option, 0 if none is."""
    return _held[option].getsockname()[1] if option in _held else 0


def bound():
    """A socket that has a free port on all addresses of both protocols."""
    try:
        s = socket.socket(socket.AF_INET6)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    except OSError:  # a host without IPv6
        s = socket.socket(socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("", 0))
    return s


def change(directory):
    """Has the raylet start its agents by share_port.py. directory: where that may be written. Without that the agents could not bind their ports, which are given up then."""
    if not any(option in _held for option in AGENTS):
        return
    try:
        from ray._private import ray_constants, services
        spawn, raylet = services.start_ray_process, ray_constants.PROCESS_TYPE_RAYLET
        programs = [os.path.join(services.RAY_PATH, program) for program in PROGRAMS]
        path = os.path.join(directory, "share_port.py")
        with open(path, "wb") as f:
            f.write(pkgutil.get_data("rayctl_keeper.rayhook", "share_port.py"))
    except (ImportError, AttributeError, OSError):
        release()
        return

    def start(command, process_type, *args, **kwargs):
        if process_type == raylet:
            changed = shared(command, path, programs)
            if changed is None:
                release()
            command = changed or command
        return spawn(command, process_type, *args, **kwargs)

    services.start_ray_process = start


def shared(command, path, programs):
    """The raylet's command, whose agents are run by the program at path; None if there are no such agents in it."""
    changed, found = [], 0
    for argument in command:
        if argument.startswith(COMMANDS):
            for program in programs:
                one = subprocess.list2cmdline([program])
                if one + " " in argument:
                    argument = argument.replace(one + " ", subprocess.list2cmdline([path]) + " " + one + " ", 1)
                    found += 1
        changed.append(argument)
    return changed if found == len(programs) else None


def release():
    """Gives the agents' ports up: another program may bind them."""
    for option in AGENTS:
        if option in _held:
            _held.pop(option).close()


def possible():
    """Whether the kernel keeps a shared port for one user."""
    return sys.platform.startswith("linux")
