"""Keeps one command of a test, such as a Ray head: starts it, and when stdin closes (the test ended, or was killed) kills all of it.

Usage: guard.py TEMP_DIR COMMAND...
Ray's processes found new sessions and are orphaned when their parents die, so a process group is not enough to end them:
this process makes itself the reaper of all its descendants (Linux) and kills what it finds below itself until nothing is left.
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading

PR_SET_CHILD_SUBREAPER = 36


def descendants():
    """Process ids below this one, from /proc."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    parents[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
            except OSError:
                pass
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {os.getpid()}


def kill_all(group):
    """SIGKILL, again and again: a process may have forked while the list was made."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
    if not os.path.isdir("/proc/self"):
        return
    while True:
        alive = descendants()
        if not alive:
            return
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, 0)[0]:
                pass
        except ChildProcessError:
            pass


def main():
    temp_dir, command = sys.argv[1], sys.argv[2:]
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except AttributeError:
        pass  # not Linux
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test, whose end closes stdin
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())

    def child_ended():
        child.wait()
        os.close(3)  # the test sees by it that the head has ended

    threading.Thread(target=child_ended, daemon=True).start()
    sys.stdin.read()
    kill_all(child.pid)
    if temp_dir:
        shutil.rmtree(temp_dir, ignore_errors=True)


main()
