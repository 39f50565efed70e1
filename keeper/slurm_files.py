"""Files of a Slurm site, for a client that reaches it by one command: `python3 -c THIS` on the login node.

Requests and answers are JSON, a line each: {"id": 1, "op": "read", ...} -> {"id": 1, ...} or {"id": 1, "error": "...", "errno": 2}.
A watch answers with its id at every change until it is stopped. It ends with its standard input. Python 3.6 or later.
"""

import base64
import errno
import getpass
import json
import os
import select
import shutil
import socket
import stat
import sys
import time

LOOK = 0.2  # seconds between looks at watched files: shared file systems have no notification of changes
SELDOM = 5.0  # the same where nothing has changed for long: a job may wait for days
PATIENCE = 60.0  # the part of the time without a change after which the next look follows: a change is seen at most as much later
CHUNK = 1 << 20  # bytes of a file in one answer
PART = ".part"
TURN = ".turn"
TURN_LIMIT = 10.0  # seconds
USERS_UMASK = 0o077  # until it is known


def hello(request):
    """Who and where we are, and the variables to keep that are set."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = str(os.getuid())
    return {"home": os.path.expanduser("~"), "user": user, "host": socket.gethostname(), "python": sys.version.split()[0],
            "environment": ["%s=%s" % (name, os.environ[name]) for name in request.get("keep", ()) if name in os.environ]}


def write(request):
    """Adds bytes to a file beside path; with "last" it becomes path, whole or not at all."""
    path = request["path"]
    part = path + PART + request.get("tag", "")
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if request.get("first") else os.O_APPEND)
        with os.fdopen(os.open(part, flags, request.get("mode", 0o600)), "ab") as f:
            f.write(base64.b64decode(request.get("data", "")))
            if request.get("last"):
                f.flush()
                os.fsync(f.fileno())
        if request.get("last"):
            if request.get("exclusive"):
                try:
                    place(part, path)
                finally:
                    discard(part)
            else:
                os.replace(part, path)
    except OSError as error:
        if error.errno != errno.EEXIST:
            discard(part)
        raise
    return {}


def place(part, path):
    """Gives a whole file its name, unless something has it. Where files have one name only, whoever makes the turn's file may look and rename."""
    try:
        os.link(part, path)
        return
    except OSError as error:
        if error.errno not in NO_LINKS:  # noqa: F821 it is in the text before this
            raise
    turn = path + TURN
    ours = take_turn(turn)
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if stamp(turn) != ours:  # somebody took us for dead
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        os.rename(part, path)
    finally:
        if stamp(turn) == ours:
            os.unlink(turn)


def take_turn(turn):
    """Makes a file that only one can make, and returns its stamp. Its maker needs it for a moment: what does not change while we watch is a dead one's.
    (Clocks of clients and of file servers differ: they are not asked.)"""
    seen, since = None, 0.0
    while True:
        try:
            os.close(os.open(turn, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return stamp(turn)
        except FileExistsError:
            now = stamp(turn)
        if now != seen:
            seen, since = now, time.monotonic()
        elif now is not None and time.monotonic() - since > TURN_LIMIT and stamp(turn) == seen:
            discard(turn)
        time.sleep(0.05)


def discard(path):
    """Removes a file that may not be there."""
    try:
        os.unlink(path)
    except OSError:
        pass


def read(request):
    """Bytes of a file from an offset on, at most CHUNK."""
    with open(request["path"], "rb") as f:
        f.seek(request.get("offset", 0))
        data = f.read(CHUNK)
        return {"data": base64.b64encode(data).decode(), "size": os.fstat(f.fileno()).st_size}


def end(request):
    """The last bytes of a regular file, at most limit. A job may have put a link or a pipe in its place, at which a reader would wait for ever."""
    path = request["path"]
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        begin = max(0, status.st_size - request["limit"])
        data = os.pread(descriptor, status.st_size - begin, begin)
        return {"data": base64.b64encode(data).decode(), "size": status.st_size}
    finally:
        os.close(descriptor)


def several(request):
    """Small files by path, those that are there; with the seconds since each was changed, by the file server's clock as we know it."""
    found = {}
    for path in request["paths"]:
        try:
            with open(path, "rb") as f:
                found[path] = {"data": base64.b64encode(f.read()).decode(), "age": time.time() - os.fstat(f.fileno()).st_mtime}
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                raise
    return {"files": found}


def names(request):
    """Names in a directory; none where there is none."""
    try:
        return {"names": sorted(os.listdir(request["path"]))}
    except OSError as error:
        if error.errno == errno.ENOENT:
            return {"names": []}
        raise


def kind(request):
    """What a path is: file, directory, or nothing."""
    path = request["path"]
    return {"kind": "directory" if os.path.isdir(path) else "file" if os.path.exists(path) else ""}


def make(request):
    """A directory and its parents: ours alone, or, with a mode for others too, as the user's umask sets it."""
    mode = request.get("mode", 0o700)
    if mode & 0o077:
        ours = os.umask(USERS_UMASK)
        try:
            os.makedirs(request["path"], exist_ok=True)
        finally:
            os.umask(ours)
    else:
        os.makedirs(request["path"], mode=mode, exist_ok=True)
    return {}


def touch(request):
    """The file was changed now."""
    os.utime(request["path"])
    return {}


def rename(request):
    """A new name, in one step."""
    os.rename(request["path"], request["to"])
    return {}


def remove(request):
    """Files and directories, with everything below; an empty directory with "empty". What is not there is fine."""
    for path in request["paths"]:
        try:
            if request.get("empty"):
                os.rmdir(path)
            elif os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except OSError as error:
            if error.errno != errno.ENOENT and not (request.get("empty") and error.errno == errno.ENOTEMPTY):
                raise
    return {}


# The last four are in the texts before this one: rayctl_keeper/state/model.py, rayctl_keeper/slurm/attempts/after.py and rayctl_keeper/run/shared.py.
OPS = {f.__name__: f for f in (hello, write, read, end, several, names, kind, make, touch, rename, remove, again, saved, salvage, share)}  # noqa: F821


class Watches:
    """Watched files: a client is notified of their changes."""

    def __init__(self):
        self.known = {}  # id -> (paths, what was seen)
        self.changed = self.looked = time.monotonic()

    def start(self, number, paths):
        """From now on; the first answer follows at once."""
        self.known[number] = (paths, None)
        self.looked = 0.0

    def stop(self, number):
        """No more."""
        self.known.pop(number, None)

    def rest(self):
        """Seconds until the next look; None: there is nothing to look at."""
        if not self.known:
            return None
        pace = min(SELDOM, max(LOOK, (self.looked - self.changed) / PATIENCE))
        return max(0.0, self.looked + pace - time.monotonic())

    def look(self):
        """Answers where something changed, if it is time to look."""
        if self.rest() != 0.0:
            return
        self.looked = time.monotonic()
        for number, (paths, seen) in list(self.known.items()):
            now = [stamp(path) for path in paths]
            if now != seen:
                self.known[number] = (paths, now)
                self.changed = self.looked
                answer(number, {})


def stamp(path):
    """Changes when the file does."""
    try:
        found = os.stat(path)
        return found.st_ino, found.st_mtime_ns, found.st_size
    except OSError:
        return None


def answer(number, fields):
    """One line to the client."""
    sys.stdout.write(json.dumps(dict(fields, id=number)) + "\n")
    sys.stdout.flush()


def handle(request, watches):
    """One request."""
    number, op = request["id"], request["op"]
    if op == "watch":
        watches.start(number, request["paths"])
    elif op == "stop":
        watches.stop(request["watch"])
        answer(number, {})
    else:
        try:
            answer(number, OPS[op](request))
        except OSError as error:
            answer(number, {"error": "%s: %s" % (os.strerror(error.errno or 0), error.filename), "errno": errno.errorcode.get(error.errno, "")})


def main():
    """Until the client goes."""
    global USERS_UMASK
    USERS_UMASK = os.umask(0o077)
    watches, buffered = Watches(), b""
    while True:
        ready, _, _ = select.select([0], [], [], watches.rest())
        if ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, buffered = (buffered + data).split(b"\n")
            for line in lines:
                handle(json.loads(line.decode()), watches)
        watches.look()


if __name__ == "__main__":
    main()
