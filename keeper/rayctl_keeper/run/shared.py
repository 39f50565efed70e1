"""What a group may read of a run (job.shareDir): copies of its output, state and result, in a directory of their own. The run's directory stays private.

The keeper has it as a module, the role `share` copies for a keeper that was killed; on the login node its text stands before keeper/slurm_files.py. Python 3.6 or later.
"""

import json
import os
import re
import stat
import sys
import threading

SHARED = re.compile(r"(driver(-[0-9]+)?\.log|state\.json|result\.json)")
SHARE_EVERY = 2.0  # seconds
SHARE_PATIENCE, SHARE_LAST = 60.0, 5.0  # seconds that the end of the run, and then the keeper's own, waits for the copies
SHARE_BLOCK = 1 << 20


class NotShared(Exception):
    """Why the directory cannot be used, and what to do."""


class Copies:
    """The run's directory below job.shareDir. It is opened once, and everything is done relative to it: where others may write to job.shareDir, what they
    rename or link there does not lead elsewhere."""

    def __init__(self, run_dir, share_dir, name):
        self._run_dir, self._done = run_dir, {}  # done: (inode, how much or when changed, open copy) by name
        self._fd, self._group = opened(share_dir, name)
        there = set(os.listdir(run_dir))
        for old in os.listdir(self._fd):  # of an earlier run of this name
            if old.endswith(".part") or SHARED.fullmatch(old) and old not in there:
                os.unlink(old, dir_fd=self._fd)

    def copy(self):
        """Copies what is new: output before the result, so that the output is whole where there is a result."""
        for name in sorted(n for n in os.listdir(self._run_dir) if SHARED.fullmatch(n)):
            try:
                with open(os.path.join(self._run_dir, name), "rb") as source:
                    (self._append if name.endswith(".log") else self._replace)(name, source)
            except FileNotFoundError:
                pass  # it was renamed meanwhile: the next look finds it

    def _append(self, name, source):
        """Of a log that grows only what has been added."""
        found = os.fstat(source.fileno())
        inode, size, out = self._done.get(name) or (None, 0, None)
        if inode != found.st_ino or found.st_size < size:
            if out is not None:
                os.close(out)
            self._done.pop(name, None)
            out, size = self._begin(name), 0
            self._finish(name, out)
        source.seek(size)
        while size < found.st_size:
            block = source.read(min(SHARE_BLOCK, found.st_size - size))
            if not block:
                break
            write_all(out, block)
            size += len(block)
        self._done[name] = (found.st_ino, size, out)

    def _replace(self, name, source):
        """A document appears as a whole."""
        found = os.fstat(source.fileno())
        if self._done.get(name) == (found.st_ino, found.st_mtime_ns, None):
            return
        out = self._begin(name)
        try:
            write_all(out, source.read())
            self._finish(name, out)
        finally:
            os.close(out)
        self._done[name] = (found.st_ino, found.st_mtime_ns, None)

    def _begin(self, name):
        try:
            os.unlink(name + ".part", dir_fd=self._fd)
        except FileNotFoundError:
            pass
        return os.open(name + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=self._fd)

    def _finish(self, name, out):
        give(out, self._group, 0o640)
        os.rename(name + ".part", name, src_dir_fd=self._fd, dst_dir_fd=self._fd)


class Sharing:
    """Copies beside the keeper, in a thread: a file system that does not answer must not keep the keeper from its work."""

    def __init__(self, orders, run_dir, log):
        self.failure = None
        self._log, self._said, self._copies = log, None, None
        self._wake, self._done, self._over = threading.Event(), threading.Event(), threading.Event()
        if not orders.get("shareDir"):
            return
        try:
            self._copies = Copies(run_dir, orders["shareDir"], orders["name"])
        except (NotShared, OSError) as error:
            self.failure = "the run cannot be shared in job.shareDir: %s" % error
            return
        threading.Thread(target=self._run, daemon=True, name="shared").start()

    def catch_up(self, patience=SHARE_PATIENCE):
        """Returns when what is there now is copied, or after some time."""
        if self._copies:
            self._done.clear()
            self._wake.set()
            if not self._done.wait(patience):
                self._log("the copies in job.shareDir are not complete after %d s" % patience)

    def end(self):
        """The last copies, of the result."""
        self._over.set()
        self.catch_up(SHARE_LAST)

    def _run(self):
        over = False
        while not over:
            self._wake.wait(SHARE_EVERY)
            over, asked = self._over.is_set(), self._wake.is_set()
            self._wake.clear()
            try:
                self._copies.copy()
            except OSError as error:
                if self._said != str(error):  # once
                    self._said = str(error)
                    self._log("job.shareDir: %s" % error)
            if asked:
                self._done.set()


def opened(share_dir, name):
    """The open directory of a run, which only its owner may write to, and the group that may read it: that of share_dir."""
    try:
        top = os.open(share_dir, os.O_RDONLY | os.O_DIRECTORY)  # links in the path are the user's own choice
    except OSError as error:
        raise NotShared("%s: %s: make the directory, and give it to the group that may read" % (share_dir, error.strerror))
    try:
        group = os.fstat(top).st_gid
        try:
            os.mkdir(name, 0o700, dir_fd=top)
        except FileExistsError:
            pass
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    except OSError as error:
        raise NotShared("%s: %s" % (os.path.join(share_dir, name), error.strerror))
    finally:
        os.close(top)
    owner = os.fstat(fd).st_uid
    if owner != os.geteuid():
        os.close(fd)
        raise NotShared("%s belongs to user %d: choose another name or directory" % (os.path.join(share_dir, name), owner))
    try:
        give(fd, group, 0o750)
    except PermissionError:
        os.close(fd)
        raise NotShared("you are not in the group of %s, %d: `chgrp` it to the group that may read" % (share_dir, group))
    return fd, group


def give(fd, group, mode):
    """Lets a group read what we have made."""
    if os.fstat(fd).st_gid != group:
        os.fchown(fd, -1, group)
    if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
        os.fchmod(fd, mode)


def write_all(fd, data):
    """os.write may take less than all."""
    while data:
        data = data[os.write(fd, data):]


def publish(run_dir):
    """Copies all of a run once, for a keeper that does it no more. Returns why that was not possible, or ""."""
    try:
        with open(os.path.join(run_dir, "orders.json")) as f:
            orders = json.load(f)
        if orders.get("shareDir"):
            Copies(run_dir, orders["shareDir"], orders["name"]).copy()
    except (NotShared, OSError, ValueError) as error:
        return str(error)
    return ""


def share(request):
    """publish, for a client of the login node."""
    return {"failed": publish(request["attempt"])}


def main(arguments):
    """Entry point of the role."""
    failed = publish(arguments[0])
    if failed:
        print(failed, file=sys.stderr)
    return 1 if failed else 0
