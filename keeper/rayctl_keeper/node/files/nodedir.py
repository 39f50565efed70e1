"""A node's own directory, which nobody else on the machine can enter, prepare or replace.

Ray makes its temporary directory, the session, its logs and unpacked packages writable for everybody (chmod 0o777 without the sticky bit in
try_to_create_directory, ray/_private/utils.py, Ray 2.9 to 2.60; there is no setting). So Ray's directory is below one with mode 0700."""

import errno
import fcntl
import os
import shutil
import stat

from rayctl_keeper.node.files import left, scratch

SPILLED = "s"  # a link to the node's directory elsewhere, for what Ray spills
RAYS = "t"  # Ray's part; short, because sockets below it may have at most 107 bytes (sun_path in unix(7))
TRIES = 100  # names that are taken, before the disk is taken to be broken
NEEDED = 16 << 20  # bytes for the logs of Ray's start; with less Ray hangs or ends without a word
OTHERS_WRITE, STICKY = stat.S_IWOTH, stat.S_ISVTX


def make(root):
    """Makes <root>/r<8 random hex digits>, mode 0700, with a directory for Ray in it; returns its path. A name that is taken, by whatever
    and whomever, is left alone. Raises OSError."""
    check_root(root)
    free = os.statvfs(root).f_bavail * os.statvfs(root).f_frsize
    if free < NEEDED:
        raise OSError("no space is left in %s on %s: Ray needs %d MiB there, and %.1f are free" % (root, os.uname().nodename, NEEDED >> 20, free / (1 << 20)))
    for _ in range(TRIES):
        directory = os.path.join(root, "r" + os.urandom(4).hex())
        try:
            os.mkdir(directory, 0o700)  # fails if there is anything of that name, a symbolic link to nowhere, too
        except FileExistsError:
            continue
        os.mkdir(os.path.join(directory, RAYS), 0o700)
        return directory
    raise FileExistsError("%d names in %s are taken" % (TRIES, root))


def lock(directory):
    """Keeps cleaners away from what is in the directory and old, as long as the descriptor that is returned is open: systemd-tmpfiles leaves locked directories
    alone (tmpfiles.d(5), "Age"), and so does left.py. None where there are no such locks."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        left.mark(directory)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def spill_into(directory, target):
    """Makes the node's directory for spilled objects in target, which remove() finds again. Raises OSError."""
    made = spilled(directory, target)
    os.makedirs(target, mode=0o700, exist_ok=True)
    os.mkdir(made, 0o700)
    os.symlink(made, os.path.join(directory, SPILLED))


def spilled(directory, target):
    """The node's directory for spilled objects in target."""
    return os.path.join(target, os.path.basename(directory))


def remove(directory):
    """Removes the node's directory, and that for spilled objects."""
    try:
        target = os.readlink(os.path.join(directory, SPILLED))
    except OSError:
        target = ""
    if os.path.basename(target) == os.path.basename(directory):  # as spill_into makes it
        shutil.rmtree(target, ignore_errors=True)
    shutil.rmtree(rays(directory), ignore_errors=True)  # first: until all that takes long is gone, the mark of left.py stays
    shutil.rmtree(directory, ignore_errors=True)
    scratch.remove(os.path.dirname(directory))


def shortage(directory):
    """Why nothing can be written into the node's directory any more, "" if it can: quotas are seen in no other way."""
    path = os.path.join(directory, "probe")
    try:
        with open(path, "wb") as f:
            f.write(b"\1" * (1 << 16))
            f.flush()
            os.fsync(f.fileno())
        os.unlink(path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "no space is left in %s on %s" % (os.path.dirname(directory), os.uname().nodename)
    return ""


def rays(directory):
    """Ray's temporary directory in the node's own."""
    return os.path.join(directory, RAYS)


def check_root(root):
    """Raises PermissionError if another user could rename what we make in root: then he could put his own in its place."""
    path = os.path.realpath(root)
    while True:
        found = os.stat(path)
        if found.st_mode & OTHERS_WRITE and not found.st_mode & STICKY:
            raise PermissionError("%s can be changed by every user (mode %04o without the sticky bit), so Ray cannot have its files in %s; "
                                  "`chmod +t` it, or choose another directory as tmpDir" % (path, stat.S_IMODE(found.st_mode), root))
        if found.st_uid not in trusted():
            raise PermissionError("%s belongs to another user (uid %d), so Ray cannot have its files in %s; choose another directory as tmpDir"
                                  % (path, found.st_uid, root))
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)


def trusted():
    """Users who may do what they want with our files anyway: ourselves and root. In a user namespace root may have no number: then its files
    show the kernel's overflow uid (user_namespaces(7))."""
    users = {os.geteuid(), 0}
    try:
        with open("/proc/self/uid_map") as f:
            whole = f.read().split() == ["0", "0", "4294967295"]
        if not whole:
            with open("/proc/sys/kernel/overflowuid") as f:
                users.add(int(f.read()))
    except (OSError, ValueError):
        pass  # not Linux
    return users
