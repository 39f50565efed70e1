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


MADE = ".rayctl-made"  # in a directory that make() made: how many of those that lead to it are ours


def make(path):
    """Makes what a job's directory lacks, for the user alone. Raises OSError."""
    missing, at = 0, path
    while not os.path.isdir(at):
        missing, at = missing + 1, os.path.dirname(at)
    os.makedirs(path, mode=0o700, exist_ok=True)
    if missing:
        with open(os.path.join(path, MADE), "w") as f:
            f.write(str(missing))


def remove(path):
    """Removes what make() made, once nothing else is in it: several nodes of a job may share it, and the last one removes it."""
    mark = os.path.join(path, MADE)
    try:
        found = os.lstat(mark)
        if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode) or os.listdir(path) != [MADE]:
            return
        with open(mark) as f:
            levels = int(f.read())
        os.unlink(mark)
        for _ in range(levels):
            os.rmdir(path)
            path = os.path.dirname(path)
    except (OSError, ValueError):
        pass  # somebody has used it meanwhile, or removed it first
