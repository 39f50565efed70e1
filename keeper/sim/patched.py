"""Puts the models into the places where the keeper meets the world: the clock, threads, its children, Slurm's commands, the dashboard, the disk."""

import errno
import os
import queue
import subprocess
import threading
import time

from rayctl_keeper.driver import log, rayjob
from rayctl_keeper.host import process
from rayctl_keeper.http import api, mail
from rayctl_keeper.node.groups import autoscaling
from rayctl_keeper.run import change, keeper
from rayctl_keeper.run import life as keepers_life
from rayctl_keeper.run.head import head
from rayctl_keeper.run.job import driverwatch, submitted
from rayctl_keeper.run.limits import waiting
from rayctl_keeper.run.nodes import step as steps
from rayctl_keeper.slurm.attempts import account, after, tenure
from rayctl_keeper.slurm.batch import killed, start
from rayctl_keeper.slurm.companions import companions, submission
from rayctl_keeper.slurm.controller import commands
from rayctl_keeper.state import document
from sim.ray import Dashboard
from sim.step import SimStep, Stream
from sim.world import EPOCH, Bell, Killed

LIFE = None  # the life that is simulated now


def present():
    """The process whose turn it is."""
    return LIFE.world.current.process


class Instead:
    """A module, or a part of it, with some names that mean something else."""

    def __init__(self, module, **names):
        self.__dict__.update(names, _module=module)

    def __getattr__(self, name):
        return getattr(self._module, name)


class NoThread:
    """Of the stream that follows a driver's log over HTTP, which is cut at once here: the end of the log is read when the driver has ended."""

    def __init__(self, **_):
        pass

    def start(self):
        pass


class NoOutputs:
    """Of the output of submitted jobs, which is not in this model: there is nothing to take."""

    def __init__(self, *_):
        pass

    def want(self, jobs, running=False):
        pass

    def finish(self, until):
        return True


class Thread:
    """Another actor of the present process. One that listens to srun costs none."""

    def __init__(self, target, args=(), daemon=None, name=""):
        self._target, self._args, self._actor = target, args, None

    def start(self):
        if self._args and isinstance(self._args[0], Stream):
            stream, stream.take = self._args
            stream.bell = self._target.__self__.bell
        else:
            self._actor = LIFE.world.start(present(), lambda: self._target(*self._args))

    def join(self, limit=None):
        """Of a listener: all is read when srun has ended."""
        world = LIFE.world
        until = world.now + (limit or 1e9)
        while self._actor is not None and not self._actor.done and world.now < until:
            world.block(min(until, world.now + 0.5))


class Event:
    """threading.Event among actors."""

    def __init__(self):
        self._set, self._waits = False, []

    def set(self):
        self._set = True
        for actor in self._waits:
            LIFE.world.wake(actor)

    def is_set(self):
        return self._set

    def wait(self, limit=None):
        world = LIFE.world
        until, actor = world.now + (1e9 if limit is None else limit), world.current
        self._waits.append(actor)
        while not self._set and world.now < until:
            world.block(until)
        self._waits.remove(actor)
        return self._set


class Queue:
    """queue.Queue among actors, of which one takes."""

    def __init__(self):
        self._items, self._waits = [], None

    def put(self, item):
        self._items.append(item)
        if self._waits is not None:
            LIFE.world.wake(self._waits)

    def get(self, timeout):
        world = LIFE.world
        until, self._waits = world.now + timeout, world.current
        while not self._items and world.now < until:
            world.block(until)
        self._waits = None
        if not self._items:
            raise queue.Empty
        return self._items.pop(0)


def select_(_read, _write, _errors, seconds):
    LIFE.world.sleep(seconds)


def command(argv, _environ, limit):
    """process.run: one of Slurm's commands."""
    code, out, err = LIFE.slurm.command(argv, limit)
    return code, out.encode(), err.encode()


def run(argv, **_):
    code, out, err = command(argv, None, None)
    return subprocess.CompletedProcess(argv, code, out, err)


def utime(path, times=None):
    """The time of change is that of the file server's clock."""
    shared_files()
    now = EPOCH + LIFE.world.now if times is None else times[1]
    os.utime(path, (now, now))


def shared_files():
    """Whoever reaches them not waits until they are reached."""
    world, host = LIFE.world, present().host
    while host is not None and host.hangs and not world.happens:
        world.block(world.now + 1.0)


def say(text):
    """keeper.log"""
    shared_files()
    LIFE.world.say(text)


def load(path):
    """after.load, of a file that may hang."""
    shared_files()
    return after.load(path)


def exit_(code):
    LIFE.exited(present(), code)
    present().end()
    raise Killed()


def kill(pid, number):
    LIFE.sruns[pid].signal(number)


def write_atomically(path, data):
    """Both the moment before and the moment after a write may be the keeper's last."""
    world = LIFE.world
    world.look()
    shared_files()
    process_ = present()
    process_.writes += 1
    at, later = process_.kill_at_write or (0, False)
    if at == process_.writes and not later:
        LIFE.kill(process_)
        world.look()
    if world.now < world.disk_full_until:
        raise OSError(errno.ENOSPC, "No space left on device", path)
    with open(path + ".tmp", "wb") as f:
        f.write(data)
    os.replace(path + ".tmp", path)
    utime(path)
    LIFE.wrote(path)
    if at == process_.writes:
        LIFE.kill(process_)
        world.look()


def bell(told=None):
    present().bell = Bell(LIFE.world, told)
    LIFE.keeper_begins(present())
    return present().bell


class Keeper(keepers_life.Keeper):
    """Known to its process."""

    def __init__(self, orders, run_dir, nodes, *more):
        super().__init__(orders, run_dir, nodes, *more)
        present().keeper, present().state, present().nodes = self, self.state, nodes


def apply():
    """Once in a process."""
    time.monotonic = lambda: LIFE.world.monotonic()
    time.time = lambda: LIFE.world.time()
    time.sleep = lambda seconds: LIFE.world.sleep(seconds)
    keepers_life.Dashboard = head.Dashboard = lambda url, token: Dashboard(LIFE.world, LIFE.head_at, url)
    keepers_life.Keeper = Keeper
    keepers_life.Outputs = NoOutputs
    head.gcs_lives = lambda address: LIFE.gcs_lives(address)
    process.reap = waiting.reap = lambda: LIFE.reap()
    process.Bell, process.become_subreaper, process.run = bell, lambda: None, command
    rayjob.find_driver = lambda submission_id, directories: LIFE.find_driver(submission_id, directories)
    driverwatch.pidfd_open = lambda pid: LIFE.pidfd(pid)
    driverwatch.readable = lambda fds, seconds: LIFE.wait_for(fds, seconds)
    log.threading = Instead(threading, Thread=NoThread)
    api.serve = lambda *_: ("127.0.0.1", 1)
    keeper.opened_log = lambda _: say
    keeper.signal = Instead(keeper.signal, signal=lambda *_: None, pthread_sigmask=lambda *_: None)
    keeper.MODES = dict(keeper.MODES, step=lambda *arguments: SimStep(LIFE, *arguments))
    for module in document, mail, change, submitted, autoscaling, submission, start, killed, account, tenure:
        module.write_atomically = write_atomically
    for module in start, tenure, companions, steps:
        module.threading = Instead(threading, Thread=Thread, Event=Event)
    for module in start, tenure, account, commands, steps:
        module.select = Instead(None, select=select_)
    companions.queue = Instead(queue, Queue=Queue)
    commands.subprocess = Instead(subprocess, run=run, call=lambda argv, **_: run(argv).returncode)
    commands.sys = Instead(None, stderr=Instead(None, write=lambda text: text and LIFE.world.say("  " + text.strip())))
    for module in start, account:
        module.print = lambda *text: LIFE.world.say("the batch script prints: %s" % " ".join(map(str, text)))
    killed.end_orphans = lambda: LIFE.end_orphans()
    tenure.os = Instead(os, utime=utime)
    tenure.load = killed.load = load
    steps.os = Instead(os, kill=kill, _exit=exit_)
