"""Directories of nodes that nobody could remove, because supervisor, guards and Ray were all killed at once: the next node on the host removes them.

What is removed is proven to be ours, and dead. The proof of life is the lock that supervisor and forked guard hold (nodedir.lock): it is seen from every container
that has the directory. Where there are no such locks, on another host or after a restart of this one, a directory is left alone."""

import fcntl
import os
import re
import socket
import stat
import threading

from rayctl_keeper.host import process

MARK = ".rayctl-node"  # in a directory whose supervisor had the lock; it has the host's boot id
NAME = re.compile("r[0-9a-f]{8}")  # as nodedir.make has them
BOOT = "/proc/sys/kernel/random/boot_id"


def boot_id():
    """Of the host's kernel; b"" where it has none (macOS): then nothing is removed."""
    try:
        with open(BOOT, "rb") as f:
            return f.read().strip()
    except OSError:
        return b""


def mark(directory):
    """Notes that the lock of this directory is held as long as its node lives."""
    try:
        with open(os.path.join(directory, MARK), "wb") as f:
            f.write(boot_id())
    except OSError:
        pass  # a full disk: the directory is none that others may remove


def remove_beside(directory, remove):
    """In the background: calls remove(path) for the dead ones among the directories beside this one."""
    threading.Thread(target=_remove_beside, args=(directory, remove), daemon=True, name="left").start()


def _remove_beside(directory, remove):
    try:
        with os.scandir(os.path.dirname(directory)) as entries:
            found = [e.path for e in entries if NAME.fullmatch(e.name) and e.path != directory and e.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in found:
        remove_dead(path, remove)


def remove_dead(directory, remove):
    """Calls remove(directory) if it is a dead node's; no other process then takes it for one."""
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if is_marked(opened):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_marked(opened) and not runs(directory):
                remove(directory)
    except OSError:
        pass  # it is locked: it lives, or another one removes it
    finally:
        os.close(opened)


def is_marked(opened):
    """Whether the opened directory is one of this user's alone, with our mark of this host."""
    found = os.fstat(opened)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700 or not boot_id():
        return False
    try:
        with open(os.open(MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened), "rb") as f:
            found = os.fstat(f.fileno())
            return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and f.read(100) == boot_id()
    except OSError:
        return False


def runs(directory):
    """Whether processes of a node without supervisor and guards are left: they are seen here, or, if they are another container's, Ray's sockets answer."""
    if process.marked(b"RAYCTL_NODE_DIR=" + os.fsencode(directory)):
        return True
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if stat.S_ISSOCK(os.lstat(path).st_mode) and answers(path):
                return True
    return False


def answers(path):
    """Whether somebody listens on the Unix socket, or it cannot be known."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        try:
            s.connect(path)
            return True
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
