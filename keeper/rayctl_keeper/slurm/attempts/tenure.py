"""Never two keepers of one run. Slurm takes a node that it cannot reach for lost, and starts the job again elsewhere, while the keeper there may live on. So a keeper renews a
file in the run's directory, and ends itself where it finds that another attempt takes over, or where for some time it reaches neither that directory nor Slurm. The next
attempt begins when its predecessor has let go, or must have ended by then."""

import json
import os
import re
import select
import threading
import time

from rayctl_keeper.run.nodes.common import RUNS
from rayctl_keeper.slurm.attempts.after import last_words, load
from rayctl_keeper.slurm.controller import allocation, commands
from rayctl_keeper.state.document import write_atomically

FILE = "tenure"  # in an attempt's directory: renewed while its keeper lives, removed when it has ended all
NEXT = "next"  # in the run's: the attempt that takes over
NOW = "now"  # beside it: whose time of change is that of the file system's clock
RENEW = 5.0  # seconds between renewals
LOOK = 1.0  # seconds between two looks whether the time without a renewal is over
ENDING = 15.0  # seconds for a keeper that ends itself: to look, to ask Slurm (allocation.QUICK), and to end its nodes
DEFAULT, SHORTEST = 300, 15  # seconds: SlurmdTimeout's default, and the least


def silence():
    """Seconds without renewal after which a keeper ends itself: Slurm takes a node for lost after SlurmdTimeout (slurm.conf(5)), not before."""
    found = re.search(r"^SlurmdTimeout\s*=\s*(\d+)", commands.ask("scontrol", "show", "config") or "", re.MULTILINE)
    return max(SHORTEST, int(found.group(1)) if found and int(found.group(1)) else DEFAULT)


def is_over(superseded, silent, seconds, standing):
    """Whether a keeper must end: another attempt takes over, or it is silent for longer than it may, and Slurm does not say that it has its nodes. silent() is asked again
    after standing(), which takes its time and is called only if that matters."""
    return superseded or silent() > seconds and standing() != RUNS and silent() > seconds


class Tenure:
    """What Slurm and the run's directory say of this keeper's attempt (Step.allocation)."""

    unanswered = staticmethod(allocation.without_answer)
    standing = staticmethod(allocation.standing)
    warned = staticmethod(allocation.warned)

    def __init__(self, run, place):
        self._run, self._place, self._file = run, place, os.path.join(place, FILE)
        self._seconds, self._renewed, self._over = DEFAULT, time.monotonic(), threading.Event()
        self._superseded = False  # as far as it was seen: only _renew reads the directory, which may hang

    def begin(self, abandon):
        """Renews from now on, in threads: what reaches the directory may hang. abandon() ends what runs here, and this process with it."""
        self._write()  # at once: for the next attempt a keeper without this file has ended
        threading.Thread(target=self._renew, daemon=True).start()
        threading.Thread(target=self._watch, args=(abandon,), daemon=True).start()

    def superseded(self):
        """Whether another attempt takes over."""
        try:
            return load(os.path.join(self._run, NEXT)).get("attempt", 0) > int(os.path.basename(self._place))
        except (OSError, ValueError):
            return False

    def release(self):
        """This keeper has ended all."""
        self._over.set()
        let_go(self._place)

    def _renew(self):
        self._seconds = silence()
        self._write()
        while not self._over.wait(RENEW):
            try:
                os.utime(self._file)
                self._renewed = time.monotonic()
            except OSError:
                pass
            self._superseded = self.superseded()

    def _write(self):
        try:
            write_atomically(self._file, b"%d" % self._seconds)
        except OSError:
            pass  # a full disk: the next attempt does not wait for what is not there

    def _watch(self, abandon):
        while not self._over.wait(LOOK):
            if is_over(self._superseded, lambda: time.monotonic() - self._renewed, self._seconds, lambda: self.standing(allocation.QUICK)):
                abandon()


def let_go(place):
    """Nothing of the attempt's keeper is left."""
    try:
        os.unlink(os.path.join(place, FILE))
    except OSError:
        pass  # there was none


def take_over(run, before, attempt):
    """Returns when no keeper of the attempt before is left. One that Slurm could not reach may live: it has not let go, and Slurm has written nothing of having ended it."""
    write_atomically(os.path.join(run, NEXT), json.dumps({"attempt": attempt}).encode())
    if not last_words(run):
        await_end(run, before)


def await_end(run, before):
    """Waits until the keeper of an attempt has let go, or has not renewed for as long as it may be silent."""
    path, seconds = os.path.join(before, FILE), DEFAULT
    while True:
        try:
            with open(path) as f:  # opened: a file system may keep older times of what is not
                seconds = int(f.read() or seconds)
                renewed = os.fstat(f.fileno()).st_mtime
        except FileNotFoundError:
            return
        if clock(run) - renewed > seconds + ENDING:
            return
        select.select([], [], [], 1.0)


def clock(directory):
    """The time by the clock of the file system, which need not be this host's."""
    path = os.path.join(directory, NOW)
    with open(path, "w"):
        os.utime(path)
    return os.stat(path).st_mtime
