"""Runs a command for `rayctl exec`, in a step of the job: `srun --unbuffered ... python3 keeper.pyz slurm-exec COMMAND...`.

The standard output of an unbuffered task is a terminal (srun(1), --unbuffered), and without that option srun holds back what has no
newline yet. So the command gets pipes, and what it writes is passed on in frames: one byte for the kind ("o" standard output, "e"
standard error, "x" the exit code), four bytes how long, big-endian. BEGIN comes first: a task prolog or a login shell may print
something before. Standard input is the command's own. Frames carry the exit code too, so that srun has nothing to complain about
and its own errors are distinguished from the command's. The client's side is slurm/tunnels/execframes.go.
"""

import array
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios

BEGIN = b"\0rayctl exec\0"
HEADER = struct.Struct(">cI")
CHUNK = 64 << 10  # what a pipe holds
# srun passes signals on to all processes of a step. They are for the command; handlers, unlike SIG_IGN, end with its exec.
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def send(kind, data):
    """One frame to the client."""
    write(HEADER.pack(kind, len(data)) + data)


def write(data):
    """All of it."""
    while data:
        data = data[os.write(1, data):]


def pump(child, streams):
    """Passes on what the command writes until it has ended. Processes that it leaves behind may keep its pipes open."""
    ended, child_ended = os.pipe()
    os.set_blocking(child_ended, False)
    signal.set_wakeup_fd(child_ended)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    for descriptor in [ended] + list(streams):
        poll.register(descriptor, select.POLLIN)
    while child.poll() is None:
        for descriptor, _ in poll.poll():
            data = os.read(descriptor, CHUNK)
            if descriptor == ended:
                continue
            if data:
                send(streams[descriptor], data)
            else:
                poll.unregister(descriptor)


def rest(streams):
    """Passes on what the command wrote last."""
    for descriptor, kind in streams.items():
        waiting = array.array("i", [0])
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
        left = waiting[0]
        while left > 0:
            data = os.read(descriptor, min(left, CHUNK))
            left -= len(data)
            send(kind, data)


def main(arguments):
    """Entry point."""
    for number in PASSED_ON:
        signal.signal(number, lambda *_: None)
    write(BEGIN)
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    streams = {child.stdout.fileno(): b"o", child.stderr.fileno(): b"e"}
    pump(child, streams)
    rest(streams)
    code = child.returncode
    send(b"x", struct.pack(">I", code if code >= 0 else 128 - code))
