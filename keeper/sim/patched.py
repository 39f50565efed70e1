"""Puts the models into the places where the keeper meets the world: the clock, its children, the dashboard, the disk."""

import errno
import os
import time

from rayctl_keeper.driver import log, rayjob
from rayctl_keeper.host import process
from rayctl_keeper.http import mail
from rayctl_keeper.run import life as keepers_life
from rayctl_keeper.run.head import head
from rayctl_keeper.run.job import driverwatch
from rayctl_keeper.run.limits import waiting
from rayctl_keeper.state import document
from sim.ray import Dashboard

LIFE = None  # the life that is simulated now


class NoThread:
    """Of the stream that follows a driver's log over HTTP, which is cut at once here: the end of the log is read when the driver has ended."""

    def __init__(self, **_):
        pass

    def start(self):
        pass


class _Threading:
    Thread = NoThread

    def __getattr__(self, name):
        import threading
        return getattr(threading, name)


def write_atomically(path, data):
    """Both the moment before and the moment after a write may be the keeper's last."""
    world = LIFE.world
    world.writes += 1
    at, after = world.kill_at_write or (0, False)
    if at == world.writes and not after:
        world.kill_keeper()
        world.look()
    if world.now < world.disk_full_until:
        raise OSError(errno.ENOSPC, "No space left on device", path)
    with open(path + ".tmp", "wb") as f:
        f.write(data)
    os.replace(path + ".tmp", path)
    LIFE.wrote(path)
    if at == world.writes:
        world.kill_keeper()
        world.look()


def apply():
    """Once in a process."""
    time.monotonic = lambda: LIFE.world.monotonic()
    time.time = lambda: LIFE.world.time()
    time.sleep = lambda seconds: LIFE.world.sleep(seconds)
    keepers_life.Dashboard = head.Dashboard = lambda url, token: Dashboard(LIFE.world, LIFE.head_at, url)
    head.gcs_lives = lambda address: LIFE.gcs_lives(address)
    process.reap = waiting.reap = lambda: LIFE.reap()
    rayjob.find_driver = lambda submission_id, directories: LIFE.find_driver(submission_id, directories)
    driverwatch.pidfd_open = lambda pid: LIFE.pidfd(pid)
    driverwatch.readable = lambda fds, seconds: LIFE.wait_for(fds, seconds)
    log.threading = _Threading()
    document.write_atomically = mail.write_atomically = write_atomically
