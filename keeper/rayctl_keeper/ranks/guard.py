"""Runs one rank: `python -c THIS STATUS_FD HOSTFILE COMMAND`. The command leads a session of its own. When it has ended, or when the actor that started this program has ended
(end of file on stdin), all that it has started is killed: this program inherits its orphans. So the end of file on the output is the end of the rank, and nothing is left on the node.
SIGTERM is passed on to all of these. What is written to STATUS_FD is the command's wait status, and 1 if the kernel killed for want of memory meanwhile."""
import contextlib
import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def prctl(option, value):
    """Only Linux has it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(command):
    child = os.fork()
    if child == 0:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if this program is killed
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.execv("/bin/sh", ["/bin/sh", "-c", command])
    return child


def descendants():
    """Pids of the processes that the command has started, this process' own children first."""
    parents = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with contextlib.suppress(OSError, ValueError):
            with open("/proc/%d/stat" % int(name), "rb") as f:
                parents.setdefault(int(f.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    found, below = [], [os.getpid()]
    while below:
        below = [pid for parent in below for pid in parents.get(parent, ())]
        found += below
    return found


def send(child, number):
    """A signal for all of them, as Ray signals each process of a job."""
    found = descendants()
    with contextlib.suppress(OSError):
        if not found:  # not Linux
            os.killpg(child, number)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def end_all(child):
    """Kills what is left until there is nothing: each killed process leaves its children to this one."""
    while True:
        send(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def memory_kills():
    """How often the kernel has killed in this cgroup for want of memory; 0 where that is not known."""
    total = 0
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/cgroup") as f:
            group = next((line.rstrip("\n")[3:] for line in f if line.startswith("0::")), "/")
        with open("/sys/fs/cgroup%s/memory.events" % group.rstrip("/")) as f:
            total = sum(int(line.split()[1]) for line in f if line.startswith("oom_kill "))
    return total


def reap(child, status):
    """Collects what has ended. Returns the command's wait status, if it is known, and whether there is no process any more."""
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status, True
        if pid == child:
            status = ended
        elif pid == 0:
            return status, False


def follow(child, wake):
    """Waits for the end of the command, after a SIGTERM also for what it has started, which may save something; or for the end of the actor. Returns the command's wait
    status, None if it has not ended."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(wake, select.POLLIN)
    status, asked = None, False
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if wake in ready and signal.SIGTERM in os.read(wake, 4096):
            asked = True
            send(child, signal.SIGTERM)
        status, empty = reap(child, status)
        if status is not None and (empty or not asked) or 0 in ready and not os.read(0, 4096):
            return status


def main():
    told, hostfile, command = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.set_inheritable(told, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in signal.SIGCHLD, signal.SIGTERM:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # the actor has blocked it until now
    before = memory_kills()
    child = start(command)
    os.close(1)
    os.close(2)
    status = follow(child, wake)
    out_of_memory = memory_kills() > before
    end_all(child)
    with contextlib.suppress(OSError):
        os.remove(hostfile)
    with contextlib.suppress(OSError):
        os.write(told, b"%d %d" % (signal.SIGKILL if status is None else status, out_of_memory))


if __name__ == "__main__":
    main()
