"""Runs a command with its output in a pipe. A second process, the copier, copies the pipe to the log file that Ray has for the job, which is the stdout of both.
A command that opens /dev/stderr for writing would truncate a file; it does nothing to a pipe. This program ends as the command does, once all output is in the log.
The copier is not a descendant of the job and has its own session: when Ray kills each process of a job, the copier still copies what the pipe holds.
The text of this program is passed in a variable (pipe.py): it has no apostrophe, dollar, backslash or backquote."""
import fcntl
import os
import select
import signal

STOPS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}  # Ray sends one to each process of the job; this program ignores it and ends after the command
SIZE = 1 << 20  # bytes in the pipe, where the system allows that many
room = memoryview(bytearray(SIZE))
unwritten = 0  # bytes of the output that could not be written to the log


def save(data):
    """Writes data to the log. If the log cannot be written, the command continues, and a note precedes the next bytes that can be written."""
    global unwritten
    try:
        if unwritten:
            data = b"%crayctl: %d bytes of the output are missing here: the log could not be written%c%s" % (10, unwritten, 10, data)
            unwritten = 0
        while data:
            data = data[os.write(1, data):]
    except OSError:
        unwritten += len(data)


def take(source, most=SIZE):
    """Copies the bytes that the pipe has, and waits for at least one. Returns their number; 0 when no process has the pipe open for writing."""
    size = os.readv(source, [room[:most]])
    save(room[:size])
    return size


def lock(how):
    """Locks or unlocks the log. While it is locked, output of the command may be in the pipe and not yet in the log; the keeper looks at the lock (log.py)."""
    try:
        fcntl.flock(1, how)
    except OSError:
        pass


def detached(task, *args):
    """Runs a task in a process that is neither a descendant of the job nor in its session, because Ray ends all of these. It ignores SIGUSR1, too, by which Slurm
    warns every process."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            for number in STOPS | {signal.SIGUSR1, signal.SIGUSR2}:
                signal.signal(number, signal.SIG_IGN)
            task(*args)
        os._exit(0)
    os.waitpid(child, 0)


def copy(source, told, done, others):
    """The copier. told is closed at its other end when the command has ended, or when this program was killed. Then the copier copies the rest of the pipe and writes
    a byte to done: all output of the command is in the log. After that it copies what processes write that the command left running."""
    for fd in others:
        os.close(fd)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(told, select.POLLIN)
    writers = True
    while writers and told not in [fd for fd, _ in poll.poll()]:
        writers = take(source)
    writers = writers and not rest(source)
    lock(fcntl.LOCK_UN)
    try:
        os.write(done, b"1")
    except OSError:
        pass  # the program that reads done was killed
    if writers:
        go_on(source)


def start(command, sink):
    """Starts the command; returns its process id. Signals that arrive here before the command runs are passed on to it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    child = os.fork()
    if child == 0:
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        for number in signal.SIGPIPE, signal.SIGXFSZ:  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execve("/bin/sh", ["/bin/sh", "-c", command], os.environb)
    for number in signal.sigpending() & STOPS:
        os.kill(child, number)
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    return child


def follow(child, source, copied, wake):
    """Waits until the command has ended; returns its status. If the copier is killed, this process copies."""
    poll = select.poll()
    poll.register(copied, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if wake in ready:
            os.read(wake, SIZE)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
        elif copied in ready:
            if os.read(copied, 1):
                return os.waitpid(child, 0)[1]  # all output is copied, and no process has the pipe open
            poll.unregister(copied)
            poll.register(source, select.POLLIN)
        elif not take(source):
            return os.waitpid(child, 0)[1]


def rest(source):
    """Copies what the pipe holds when the command has ended. Returns whether no process that the command left running has the pipe open; what such processes
    write later is not copied here."""
    os.set_blocking(source, False)
    left = SIZE
    while left > 0:
        try:
            size = take(source, left)
        except BlockingIOError:
            break
        if size == 0:
            return True
        left -= size
    os.set_blocking(source, True)
    return False


def go_on(source):
    while take(source):
        pass


def end_as(status):
    if os.WIFSIGNALED(status):
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def environment():
    """Removes the variables that exist only because of this program, so that the command does not get them; returns the command. Python sets LC_CTYPE if the locale
    is C."""
    try:
        with open("/proc/self/environ", "rb") as f:
            if not any(line.startswith(b"LC_CTYPE=") for line in f.read().split(bytes(1))):
                os.environb.pop(b"LC_CTYPE", None)
    except OSError:
        pass
    os.environb.pop(b"RAYCTL_PIPE", None)
    first, *parts = os.environb.pop(b"RAYCTL_COMMAND").split(b"%")
    return first + b"".join(bytes([int(part[:2], 16)]) + part[2:] for part in parts)


def keep_name():
    """Gives the log a second name, beside the directory of logs. The keeper reads it by that name (log.py), because programs that rotate logs may move the first."""
    try:
        folder, name = os.path.split(os.readlink("/proc/self/fd/1"))
        if name.startswith("job-driver-"):
            os.link(os.path.join(folder, name), os.path.join(os.path.dirname(folder), name))
    except OSError:
        pass


def main():
    command = environment()
    keep_name()
    source, sink = os.pipe()
    try:
        fcntl.fcntl(sink, 1031, SIZE)  # F_SETPIPE_SZ of Linux
    except OSError:
        pass
    told, tell = os.pipe()
    copied, done = os.pipe()
    lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
    detached(copy, source, told, done, (sink, tell, copied))
    for fd in told, done:
        os.close(fd)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    child = start(command, sink)
    os.close(sink)
    status = follow(child, source, copied, wake)
    os.close(tell)
    if not os.read(copied, 1) and not rest(source):
        lock(fcntl.LOCK_UN)
        detached(go_on, source)
    end_as(status)


if __name__ == "__main__":
    main()
