"""Makes sure that a run never has two keepers. If Slurm cannot reach a node, it declares the node lost and starts the job again on other nodes, but the keeper on that
node may still run. Therefore each keeper renews a file in the run's directory. It ends itself if another attempt takes over, or if for some time it reaches neither that
directory nor Slurm. The next attempt begins when the previous keeper has removed its file, or must have ended itself by then."""

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

FILE = "tenure"  # in an attempt's directory: the keeper renews it while it lives, and removes it when it has ended all processes
NEXT = "next"  # in the run's directory: the number of the attempt that takes over
NOW = "now"  # in the run's directory: a file whose modification time tells the file system's clock
RENEW = 5.0  # seconds between renewals
LOOK = 1.0  # seconds between two checks of the time since the last renewal
ENDING = 15.0  # seconds that a keeper needs to end itself: to notice it, to ask Slurm (allocation.QUICK), and to end its nodes
DEFAULT, SHORTEST = 300, 15  # seconds: SlurmdTimeout's default, and the shortest time without a renewal that is allowed


def silence():
    """Seconds without renewal after which a keeper ends itself: SlurmdTimeout, because Slurm declares no node lost before that time (slurm.conf(5))."""
    found = re.search(r"^SlurmdTimeout\s*=\s*(\d+)", commands.ask("scontrol", "show", "config") or "", re.MULTILINE)
    return max(SHORTEST, int(found.group(1)) if found and int(found.group(1)) else DEFAULT)


def is_over(superseded, silent, seconds, standing):
    """Whether a keeper must end: another attempt takes over, or the keeper has not renewed for too long and Slurm does not confirm that the job still has its nodes.
    standing() asks Slurm and may take long: it is called only if needed, and silent() is called again after it."""
    return superseded or silent() > seconds and standing() != RUNS and silent() > seconds


class Tenure:
    """Finds out from Slurm and the run's directory whether this keeper's attempt may continue (Step.allocation)."""

    unanswered = staticmethod(allocation.without_answer)
    standing = staticmethod(allocation.standing)
    warned = staticmethod(allocation.warned)

    def __init__(self, run, place):
        self._run, self._place, self._file = run, place, os.path.join(place, FILE)
        self._seconds, self._renewed, self._over = DEFAULT, time.monotonic(), threading.Event()
        self._superseded = False  # as _renew last read it: only that thread reads the directory, because reading may hang
        self._writes = threading.Lock()  # keeps _renew from writing the file after release, if Slurm answers silence() late

    def begin(self, abandon):
        """Starts the renewals, in threads, because access to the directory may hang. abandon() ends the processes of this attempt and then this keeper."""
        self._write()  # at once: the next attempt takes a keeper without this file for ended
        threading.Thread(target=self._renew, daemon=True).start()
        threading.Thread(target=self._watch, args=(abandon,), daemon=True).start()

    def superseded(self):
        """Reads whether another attempt takes over."""
        try:
            return load(os.path.join(self._run, NEXT)).get("attempt", 0) > int(os.path.basename(self._place))
        except (OSError, ValueError):
            return False

    def release(self):
        """Called when this keeper has ended all processes."""
        with self._writes:
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
        with self._writes:
            if self._over.is_set():
                return
            try:
                write_atomically(self._file, b"%d" % self._seconds)
            except OSError:
                pass  # a full disk: without the file, the next attempt does not wait for this keeper

    def _watch(self, abandon):
        while not self._over.wait(LOOK):
            if is_over(self._superseded, lambda: time.monotonic() - self._renewed, self._seconds, lambda: self.standing(allocation.QUICK)):
                abandon()


def let_go(place):
    """Removes the attempt's file, when all processes of its keeper have ended."""
    try:
        os.unlink(os.path.join(place, FILE))
    except OSError:
        pass  # there was none


def take_over(run, before, attempt):
    """Returns when the keeper of the previous attempt has ended. If slurm.out has no message that Slurm ended that job, the keeper may still run, and this waits for it."""
    write_atomically(os.path.join(run, NEXT), json.dumps({"attempt": attempt}).encode())
    if not last_words(run):
        await_end(run, before)


def await_end(run, before):
    """Waits until the keeper of an attempt has removed its file, or has not renewed the file for so long that the keeper must have ended itself."""
    path, seconds = os.path.join(before, FILE), DEFAULT
    while True:
        try:
            with open(path) as f:  # fstat of an opened file: a shared file system may cache old times of a file that is not open
                seconds = int(f.read() or seconds)
                renewed = os.fstat(f.fileno()).st_mtime
        except FileNotFoundError:
            return
        if clock(run) - renewed > seconds + ENDING:
            return
        select.select([], [], [], 1.0)


def clock(directory):
    """The time of the file system's clock, which may differ from this host's."""
    path = os.path.join(directory, NOW)
    with open(path, "w"):
        os.utime(path)
    return os.stat(path).st_mtime
