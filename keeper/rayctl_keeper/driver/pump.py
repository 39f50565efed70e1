"""Runs a command with its output in a pipe, and copies that to its own output, which is the log that Ray has of the job. A program that opens
/dev/stderr for writing would truncate a log that is a file; in a pipe nothing is lost. Ends as the command does, once its output is in the log.
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


def follow(child, source, wake):
    """Copies until the command has ended; returns its status."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        if wake in [fd for fd, _ in poll.poll()]:
            os.read(wake, SIZE)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
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
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    child = start(command, sink)
    os.close(sink)
    status = follow(child, source, wake)
    if not rest(source) and os.fork() == 0:
        os.setsid()  # Ray ends the process group of a job that has ended
        while take(source):
            pass
        os._exit(0)
    end_as(status)


if __name__ == "__main__":
    main()
