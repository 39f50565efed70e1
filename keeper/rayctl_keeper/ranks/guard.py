"""Runs the ranks of one node: `python -c THIS`, with a plan as a line of JSON on stdin, by the actor (main.py). One small process forks a guard for each rank: a Python for each
would cost more than many ranks themselves.

A rank's command leads a session of its own. When it has ended, or when the actor has ended (end of file on stdin), all that it has started is killed: its guard inherits its
orphans. So the end of file on the output is the end of the rank, and nothing is left on the node. SIGTERM is passed on to all of these. What a guard writes for the actor is the
command's wait status, and 1 if the kernel killed for want of memory meanwhile."""
import contextlib
import ctypes
import json
import os
import select
import signal

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
NOT_STARTED = 126  # the exit code that a shell has for it
WATCHED = {signal.SIGCHLD, signal.SIGTERM}


def prctl(option, value):
    """Only Linux has it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(command, env):
    child = os.fork()
    if child == 0:
        try:
            become(command, env)
        except BaseException as error:  # also of a locale that cannot write the command
            os.write(2, ("rayctl: /bin/sh did not start: %s\n" % error).encode("utf-8", "backslashreplace"))
        finally:
            os._exit(NOT_STARTED)
    return child


def become(command, env):
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the guard is killed
    for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.execve("/bin/sh", ["/bin/sh", "-c", command], env)


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
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        send(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def memory_kills():
    """How often the kernel has killed in this cgroup for want of memory; 0 where that is not known."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/cgroup") as f:
            groups = [line.rstrip("\n").split(":", 2)[1:] for line in f]
        for controllers, group in groups:
            if controllers == "":
                total += counted("/sys/fs/cgroup", group, "memory.events")
            elif "memory" in controllers.split(","):  # of cgroups v1
                total += counted("/sys/fs/cgroup/memory", group, "memory.oom_control")
    return total


def counted(mount, group, name):
    """A container may see only its own cgroup, which is mounted as the whole."""
    for directory in mount + group.rstrip("/"), mount:
        with contextlib.suppress(OSError), open("%s/%s" % (directory, name)) as f:
            return sum(int(line.split()[1]) for line in f if line.startswith("oom_kill "))
    return 0


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


def guard(command, env, out, told):
    """The guard of one rank."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(told, False)
    for fd in 1, 2:
        os.dup2(out, fd)
    os.close(out)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in WATCHED:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)  # blocked until they can be passed on
    before = memory_kills()
    child = start(command, env)
    os.close(1)
    os.close(2)
    status = follow(child, wake)
    out_of_memory = memory_kills() > before
    end_all(child)
    with contextlib.suppress(OSError):
        os.write(told, b"%d %d" % (signal.SIGKILL if status is None else status, out_of_memory))


def begin(plan):
    """Forks the guards; returns their pids. Each has only the descriptors of its own rank: those of others would keep these from ending."""
    guards, ranks = set(), plan["ranks"]
    for i, rank in enumerate(ranks):
        pid = os.fork()
        if pid == 0:
            try:
                for other in ranks[i + 1:]:
                    os.close(other["out"])
                    os.close(other["told"])
                guard(plan["command"], dict(os.environ, **rank["env"]), rank["out"], rank["told"])
            finally:
                os._exit(0)
        guards.add(pid)
        os.close(rank["out"])
        os.close(rank["told"])
    return guards


def main():
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            return
        line += more
    plan = json.loads(line)
    guards = begin(plan)
    while guards:
        if signal.sigwait(WATCHED) == signal.SIGTERM:
            for pid in guards:
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(ChildProcessError):
            pid = 1
            while pid:
                pid = os.waitpid(-1, os.WNOHANG)[0]
                guards.discard(pid)
    with contextlib.suppress(OSError):
        os.remove(plan["hostfile"])


if __name__ == "__main__":
    main()
