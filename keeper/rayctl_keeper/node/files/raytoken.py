"""Ray's token: whoever has it can run code in the cluster. The keeper makes another one for each start of a head, so that one that was taken, or kept, from an earlier
head is worth nothing at the next. The nodes of all hosts, and clients, read it from the run directory. It is not the keeper's own (the file `token`), which stays
the same as long as clients may come back to the cluster.

Each start of a head, a round, has a file of its own, and the state document names it beside the head's address: so nobody who has an earlier address, such as a shell
that was opened then, finds the present token and sends it to whoever listens at that address now.

Where somebody else starts the nodes (KubeRay), there is no such file, and Ray's token is the keeper's."""

import os

from rayctl_keeper.state.document import write_from_reserve

PREFIX = "ray-token."


def path(run_dir, number):
    """The place of a round's file."""
    return os.path.join(run_dir, name(number))


def name(number):
    return "%s%s" % (PREFIX, number)


def keepers(run_dir):
    """The token of the keeper's API."""
    with open(os.path.join(run_dir, "token")) as f:
        return f.read().strip()


def make(run_dir, number):
    """Makes the token of a round, before anything of it starts, and takes that of the round before away; returns it."""
    token, place = os.urandom(32).hex(), path(run_dir, number)
    former = [entry for entry in os.listdir(run_dir) if entry.startswith(PREFIX)]
    for entry in former:
        os.replace(os.path.join(run_dir, entry), place)
    if former:
        _overwrite(place, token.encode())
    else:
        write_from_reserve(run_dir, place, token.encode())
    return token


def _overwrite(place, text):
    """Writes over the token of the round before, which is as long: a full disk has no room for another file."""
    fd = os.open(place, os.O_WRONLY)
    try:
        os.write(fd, text)
        os.fsync(fd)
    finally:
        os.close(fd)
