"""Directories of dead nodes: if supervisor, guards and Ray were all killed at once, nobody removed the node's directory. The next node on the host removes it.

It removes only directories that are proven to be rayctl's and whose node is dead. A living node's supervisor and forked guard hold the lock of its directory
(nodedir.lock), which every container with the directory sees. A directory that was made on another host, or before this host was restarted, is not removed: its
lock proves nothing here."""

import fcntl
import os
import re
import socket
import stat
import threading

from rayctl_keeper.host import process

MARK = ".rayctl-node"  # a file with the host's boot id, in each directory whose supervisor got the lock
NAME = re.compile("r[0-9a-f]{8}")  # as nodedir.make has them
BOOT = "/proc/sys/kernel/random/boot_id"


def boot_id():
    """The boot id of the host's kernel; b"" if the kernel has none (macOS): then nothing is removed."""
    try:
        with open(BOOT, "rb") as f:
            return f.read().strip()
    except OSError:
        return b""


def mark(directory):
    """Notes in the directory that its node holds the lock as long as it lives, on this boot of this host."""
    try:
        with open(os.path.join(directory, MARK), "wb") as f:
            f.write(boot_id())
    except OSError:
        pass  # a full disk: without the mark, no other node removes the directory


def remove_beside(directory, remove):
    """In the background: calls remove(path) for each dead node's directory beside this one."""
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
    """Calls remove(directory) if the directory is a dead node's. The lock keeps other processes from removing it at the same time."""
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
        pass  # the directory is locked: its node lives, or another process removes it
    finally:
        os.close(opened)


def is_marked(opened):
    """Whether the opened directory belongs to this user alone and has rayctl's mark of this host and boot."""
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
    """Whether processes of the node are left although its supervisor and guards are dead. In this container they have RAYCTL_NODE_DIR; in another container, where
    this process cannot see them, Ray's sockets in the directory answer."""
    if process.marked(b"RAYCTL_NODE_DIR=" + os.fsencode(directory)):
        return True
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if stat.S_ISSOCK(os.lstat(path).st_mode) and answers(path):
                return True
    return False


def answers(path):
    """Whether a process listens on the Unix socket; true also if that cannot be found out."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        try:
            s.connect(path)
            return True
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
