"""Ray's token: whoever has it can run code in the cluster. The keeper makes another one for each start of a head, so that one that was taken, or kept, from an earlier
head is worth nothing at the next. The nodes of all hosts, and clients, read it from the run directory. It is not the keeper's own (the file `token`), which stays
the same as long as clients may come back to the cluster.

Where somebody else starts the nodes (KubeRay), this file does not exist, and Ray's token is the keeper's."""

import os

from rayctl_keeper.state.document import write_from_reserve

FILE = "ray-token"


def path(run_dir):
    """The file's place."""
    return os.path.join(run_dir, FILE)


def keepers(run_dir):
    """The token of the keeper's API."""
    with open(os.path.join(run_dir, "token")) as f:
        return f.read().strip()


def make(run_dir):
    """Makes the token of a round, before anything of it starts; returns it."""
    token = os.urandom(32).hex()
    if not _overwrite(path(run_dir), token.encode()):
        write_from_reserve(run_dir, path(run_dir), token.encode())
    return token


def _overwrite(place, text):
    """Writes over the token of the round before, which is as long: a full disk has no room for another file. False: there is none."""
    try:
        fd = os.open(place, os.O_WRONLY)
    except FileNotFoundError:
        return False
    try:
        os.write(fd, text)
        os.fsync(fd)
    finally:
        os.close(fd)
    return True
