"""The number of descriptors that this process may have, and how many of them are kept for its own work.

The kernel gives the lowest free number. So a new descriptor's number is at most the number of those that are open, and no counting is needed."""

import resource
import shutil
import sys

MOST = 65536  # more is of no use; some programs close every possible descriptor before they start another one
RESERVE = 256  # for the keeper's own work: files, pipes of nodes, children, connections to Ray; a quarter where there are few
AS_GIVEN = """import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.execvp(sys.argv[2], sys.argv[2:])"""
_given = None  # the soft limit with which the process was started, if it was raised


def raise_limit():
    """Takes as many descriptors as the process may have; only where they are needed, because children have to be started through as_given() from then on."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    for number in (wanted, 10240):  # the most that macOS takes where it shows no limit (OPEN_MAX)
        if soft == resource.RLIM_INFINITY or soft >= number:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
            _given = soft
            return
        except (OSError, ValueError):
            continue


def as_given(argv, environ):
    """The command, so that it starts with the limit that this process was given: Ray and the user's programs have it from the keeper, or from Slurm, which passes
    it on to steps and jobs. A higher one may break them (select() takes no descriptor above 1023). A shell would do for it, but for the variables that it drops."""
    if _given is None or shutil.which(argv[0], path=environ.get("PATH")) is None:  # then the caller gets the usual error
        return list(argv)
    return [sys.executable, "-S", "-E", "-c", AS_GIVEN, str(_given)] + list(argv)


def reserved(number, part=1.0):
    """Whether a descriptor of this number is one of the last ones, which are for the keeper's own work; part: of that part of them, counted from the end."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit != resource.RLIM_INFINITY and number >= limit - min(RESERVE, limit // 4) * part
