"""Starts a node's Ray and ends with it: `keeper.pyz guard DIRECTORY COMMAND...`, as the supervisor's child.

Standard input is a pipe that only the supervisor holds. When it ends the supervisor was killed: then everything that carries the node's mark
is killed and its directory removed. The supervisor's forked guard does the same, so no two of the three can be killed and leave anything."""

import os
import resource
import signal
import subprocess
import time

from rayctl_keeper.host import process
from rayctl_keeper.node.files import nodedir, rest

LOOKS, PAUSE = 3, 0.3  # seconds between them
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)  # to all of a Slurm step: they are for the supervisor


def mark(directory):
    """What belongs to the node has this in its environment."""
    return b"RAYCTL_NODE_DIR=" + os.fsencode(directory)


def end_node(directory):
    """Kills all that belongs to a node without supervisor, and removes its directory. What a driver has written comes into its log, which the keeper has open."""
    rest.drain([mark(directory)])
    for _ in range(LOOKS):  # a process that is just being started shows no environment yet, and would go on writing
        process.kill_all([mark(directory)])
        nodedir.remove(directory)
        time.sleep(PAUSE)


def end_as(code):
    """Ends as the child did: with its exit code, or by its signal."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


class Forked:
    """A forked process that cleans up if the supervisor is killed: it waits for the end of a pipe only we hold."""

    def __init__(self, directory):
        reader, self._pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            os.setsid()
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            if os.read(reader, 1) == b"":
                end_node(directory)
            os._exit(0)
        os.close(reader)

    def dismiss(self):
        """There is nothing left to guard."""
        os.write(self._pipe, b"!")
        os.close(self._pipe)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass


def main(arguments):
    """Entry point."""
    directory, command = arguments[0], arguments[1:]
    process.become_subreaper()
    bell = process.Bell()
    bell.catch(*SIGNALS)  # caught, not ignored: what is ignored stays so in the child
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    while True:
        ready = bell.wait(None, [0])
        code = process.reap().get(child.pid)
        if 0 in ready and not os.read(0, 1):
            end_node(directory)
            os._exit(1)
        if code is not None:
            end_as(code)
