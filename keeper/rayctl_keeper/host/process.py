"""Processes: adopt orphans, find all descendants, end them at once, and wait for several things without polling."""

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time

from rayctl_keeper.host import descriptors

LINUX = sys.platform.startswith("linux")
PR_SET_CHILD_SUBREAPER = 36
SYS_PIDFD_OPEN = 434  # the same number on every architecture
LONGEST_WAIT = 86400.0  # seconds: poll() takes no more than 2^31 ms
RESCAN = 0.5  # seconds for killed processes to be gone before all are looked at again
_lock, _commands = threading.Lock(), {}  # by pid, the exit codes of what run() waits for and reap() has reaped


def become_subreaper():
    """Makes orphaned descendants our children (Linux), so that nothing that a job starts can get out of sight."""
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pidfd_open(pid):
    """A file descriptor that becomes readable when the process ends, or None where the kernel has none."""
    try:
        if hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid)
        fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_OPEN, pid, 0) if LINUX else -1
        if fd >= 0:
            os.set_inheritable(fd, False)
            return fd
    except OSError:
        pass
    return None


def start_time(pid):
    """Field 22 of /proc/PID/stat: with the pid it names a process for good. 0 where there is no /proc."""
    stat = _read("/proc/%d/stat" % pid)
    return int(stat.rpartition(b")")[2].split()[19]) if stat else 0


def _read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def environ_of(pid):
    """The environment block a process was started with; empty if it may not be read."""
    return _read("/proc/%d/environ" % pid)


def arguments_of(pid):
    """The arguments of a process; [b""] if they may not be read."""
    return _read("/proc/%d/cmdline" % pid).split(b"\0")


def process_table():
    """{pid: (parent, state)} of this machine (Linux) or of what ps shows."""
    table = {}
    if LINUX:
        for name in os.listdir("/proc"):
            if name.isdigit():
                stat = _read("/proc/%s/stat" % name)
                if stat:
                    state, parent = stat.rpartition(b")")[2].split()[:2]
                    table[int(name)] = (int(parent), state.decode())
        return table
    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,state="], stdout=subprocess.PIPE, check=False).stdout.decode()
    for line in listing.splitlines():
        pid, parent, state = line.split()[:3]
        table[int(pid)] = (int(parent), state)
    return table


def children(pid):
    """Pids of a process' children, without zombies."""
    return [child for child, (parent, state) in process_table().items() if parent == pid and not state.startswith("Z")]


def leads_session(pid):
    try:
        return os.getsid(pid) == pid
    except OSError:  # it has ended, or is another user's
        return False


def descendants(root, table=None):
    """Pids of everything below root, without zombies, and without other clusters."""
    table = process_table() if table is None else table
    children = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, todo = [], list(children.get(root, ()))
    while todo:
        pid = todo.pop()
        if of_another_cluster(pid):
            continue
        found.append(pid)
        todo.extend(children.get(pid, ()))
    return [pid for pid in found if not table[pid][1].startswith("Z")]


def of_another_cluster(pid):
    """Whether it is the keeper or a supervisor of a local cluster that was launched from within this one, such as by `rayctl up` in a driver.
    Such a cluster lives on its own, though its keeper is our descendant; Ray's own processes do not inherit the mark."""
    own = os.environ.get("RAYCTL_MARK", "")
    marks = [line for line in environ_of(pid).split(b"\0") if line.startswith(b"RAYCTL_MARK=")]
    return any(line != b"RAYCTL_MARK=" + os.fsencode(own) for line in marks)


def marked(marker):
    """Pids of our processes that have the line marker (NAME=DIRECTORY, bytes) in their environment.

    This finds what lost its parent together with its supervisor."""
    if LINUX:
        return [int(n) for n in os.listdir("/proc") if n.isdigit() and carries(int(n), marker)]
    listing = subprocess.run(["ps", "-axEww", "-o", "pid=,command="], stdout=subprocess.PIPE, check=False).stdout
    return [int(line.split(None, 1)[0]) for line in listing.splitlines() if marker in line.split()]


def carries(pid, marker):
    """Whether a process has the line in its environment. Ray's agents write NUL over the beginning of theirs, as much as up to all of it, when they change their titles
    (setproctitle: src/spt_status.c, set_ps_display): such a process is known by the files that it has open in the marker's directory, as its logs."""
    environ = environ_of(pid)
    if marker in environ.split(b"\0"):
        return True
    inside = marker.partition(b"=")[2] + b"/"
    return environ.startswith(b"\0") and any(path.startswith(inside) for path in open_files(pid))


def open_files(pid):
    """What a process has open; nothing if we may not see it."""
    directory, found = b"/proc/%d/fd/" % pid, []
    try:
        numbers = os.listdir(directory)
    except OSError:
        return found
    for number in numbers:
        try:
            found.append(os.readlink(directory + number))
        except OSError:
            pass  # it was closed meanwhile
    return found


def reap():
    """Collects dead children; returns {pid: exit code}, negative for a signal."""
    ended = {}
    while True:
        with _lock:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            ended[pid] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if pid in _commands:
                _commands[pid] = ended[pid]


def run(argv, environ, limit):
    """Exit code, output and errors of a command, for threads other than the one that reaps: subprocess reports 0 for a child that another thread has reaped
    (Lib/subprocess.py, _try_wait). Raises OSError, subprocess.TimeoutExpired."""
    with _lock:
        child = subprocess.Popen(descriptors.as_given(argv, environ), env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _commands[child.pid] = None
    with child:
        try:
            out, err = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        finally:
            child.wait()
            with _lock:
                code = _commands.pop(child.pid)
    return child.returncode if code is None else code, out, err


def kill_all(markers=(), spare=(), limit=10.0):
    """SIGKILL to all our descendants and all marked processes, again until none is left; returns what would not die."""
    spare = set(spare) | {os.getpid()}
    until, ended = time.monotonic() + limit, {}
    while True:
        left = set(descendants(os.getpid())) - spare
        if not left:
            # Looked for last: reading every process's environment costs more than the tree.
            left = {pid for marker in markers for pid in marked(marker)} - spare
        # Stopped before the first is killed: none goes on because another has died, as a shell script does with its next command.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
        ended.update(reap())
        if not left or time.monotonic() > until:
            return left, ended
        _await_death(left, min(until, time.monotonic() + RESCAN), ended)


def await_death(pids, limit):
    """Waits until these processes have ended, at most so many seconds."""
    _await_death(pids, time.monotonic() + limit, {})


def _await_death(pids, until, ended):
    """The kernel needs a moment to take them down, and all processors for it: only they are looked at, each time a bit later."""
    pause = 0.005
    while time.monotonic() < until and any(lives(pid) for pid in pids):
        select.select([], [], [], pause)
        pause = min(2 * pause, 0.04)
        ended.update(reap())


def lives(pid):
    """Whether it runs: a zombie does not."""
    if LINUX:
        return _read("/proc/%d/stat" % pid).rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])
    try:
        os.kill(pid, 0)
        return True
    except OSError:
        return False


def readable(fds, seconds):
    """Waits until one of the file descriptors can be read or is broken, or the time is over (None: no limit); returns those. select() takes none above 1023."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(None if seconds is None else 1000 * min(LONGEST_WAIT, max(0.0, seconds)))]


class Bell:
    """Wakes one waiting loop from signals, other threads and file descriptors."""

    def __init__(self, told=None):
        self._told = told
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self.signals = []
        self.on_signal = None  # called from the handler, to cut short a blocking request

    def catch(self, *numbers):
        """Notes these signals in self.signals; SIGCHLD only wakes."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, self._note)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _note(self, number, _frame):
        self.signals.append(number)
        if self._told:
            self._told(number)
        if self.on_signal:
            self.on_signal()

    def ring(self):
        """Wakes the loop; safe from any thread."""
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            pass  # full: it will wake anyway

    def wait(self, seconds, fds=()):
        """Waits for a ring, a signal, one of fds, or until the time is over (None: no limit); returns the readable fds."""
        ready = readable([self._read] + list(fds), seconds)
        if self._read in ready:
            ready.remove(self._read)
            try:
                while os.read(self._read, 4096):
                    pass
            except BlockingIOError:
                pass
        return ready
