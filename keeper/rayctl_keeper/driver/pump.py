"""Runs a command with its output in a pipe, which a second process, the copier, copies to the log that Ray has of the job: their own output. A program that opens
/dev/stderr for writing would truncate a log that is a file; in a pipe nothing is lost. Ends as the command does, once its output is in the log.
The copier is no descendant and in another session: Ray kills each process of a job, and what the command wrote before is in the pipe then.
It travels in a variable (pipe.py): no apostrophe, dollar, backslash or backquote."""
import fcntl
import os
import select
import signal

STOPS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}  # Ray sends its signal to each process of the job: this one ends with the last byte
SIZE = 1 << 20  # of the pipe, where the system allows it
room = memoryview(bytearray(SIZE))
unwritten = 0  # bytes


def save(data):
    """A log that cannot be written does not stop the command. The next bytes that can be written follow a note."""
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
    """Copies what is there, at least one byte. Returns how many; 0 when nobody can write any more."""
    size = os.readv(source, [room[:most]])
    save(room[:size])
    return size


def lock(how):
    """Locked: output of the command may be on its way to the log (log.py asks for it)."""
    try:
        fcntl.flock(1, how)
    except OSError:
        pass


def detached(task, *args):
    """Runs a task in a process that is neither a descendant nor in the session of the job, whose processes Ray ends. Slurm warns all processes by SIGUSR1."""
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
    """The copier. Its first word is that the output of a command that has ended is in the log; then it copies what processes write that the command left running.
    The command has ended, or was killed with this program, when the other end of told is closed."""
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
        pass  # nobody is there any more
    if writers:
        go_on(source)


def start(command, sink):
    """Signals for the command that arrive here before it runs reach it."""
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
    """Waits until the command has ended; returns its status. Copies if the copier was killed."""
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
                return os.waitpid(child, 0)[1]  # nobody can write any more
            poll.unregister(copied)
            poll.register(source, select.POLLIN)
        elif not take(source):
            return os.waitpid(child, 0)[1]


def rest(source):
    """Copies what the command has left in the pipe, and not what processes go on writing that it left running. Returns whether there are none of these."""
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
    """Removes what the command had not without this program; returns the command. Python sets LC_CTYPE where the locale is C."""
    try:
        with open("/proc/self/environ", "rb") as f:
            if not any(line.startswith(b"LC_CTYPE=") for line in f.read().split(bytes(1))):
                os.environb.pop(b"LC_CTYPE", None)
    except OSError:
        pass
    os.environb.pop(b"RAYCTL_PIPE", None)
    first, *parts = os.environb.pop(b"RAYCTL_COMMAND").split(b"%")
    return first + b"".join(bytes([int(part[:2], 16)]) + part[2:] for part in parts)


def main():
    command = environment()
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
