"""The directory of a Slurm node below which Ray has its files, slurm.tmpDir: it may name variables, whose values only the node has."""

import os
import pwd
import re
import stat

# The documented ones, and no others (slurm/slurmspec/validate.go): the path comes from a file.
VARIABLES = re.compile(r"\$(?:(SLURM_JOB_ID|TMPDIR|USER)(?![A-Za-z0-9_])|\{(SLURM_JOB_ID|TMPDIR|USER)\})")


def expanded(path, environ):
    """The path with the node's values. Raises OSError."""
    return os.path.normpath(VARIABLES.sub(lambda found: value(found.group(1) or found.group(2), path, environ), path))


def value(name, path, environ):
    """One variable's. What is no single name, or for TMPDIR no absolute path, would lead elsewhere."""
    text = environ.get(name) or (user() if name == "USER" else "")
    if not text:
        raise OSError("slurm.tmpDir is %s, and this node has no %s; name another directory" % (path, name))
    if not os.path.isabs(text) if name == "TMPDIR" else os.sep in text or text in (".", ".."):
        raise OSError("slurm.tmpDir is %s, and %s is %r here; name another directory" % (path, name, text))
    return text


def user():
    """The user's name, where the environment has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""  # a container's own /etc/passwd


MADE = ".rayctl-made"  # in each directory that make() made: who removes it knows that it is ours
TRIES = 10  # at making what another node removes at the same moment


def make(path):
    """Makes what a job's directory lacks, for the user alone. Raises OSError."""
    for again in reversed(range(TRIES)):
        try:
            if not os.path.isdir(path):
                make(os.path.dirname(path))
                os.mkdir(path, 0o700)
                mark(path)
            return
        except (FileExistsError, FileNotFoundError):  # another node has made it first, or removed what leads to it
            if not again:
                raise


def mark(path):
    """Writes into a directory that it is ours."""
    with open(os.path.join(path, MADE), "w"):
        pass


def remove(path):
    """Removes what make() made, once nothing else is in it: several nodes and jobs may share it or what leads to it, and the last one removes that."""
    try:
        while emptied(path):
            path = os.path.dirname(path)
    except OSError:
        pass  # somebody else has removed it first


def emptied(path):
    """Removes one directory that make() made, if it is empty, and returns whether it has. Raises OSError."""
    mine = os.path.join(path, MADE)
    found = os.lstat(mine)
    if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode) or os.listdir(path) != [MADE]:
        return False
    os.unlink(mine)
    try:
        os.rmdir(path)
    except OSError:  # used meanwhile: whoever uses it removes it
        mark(path)
        raise
    return True
