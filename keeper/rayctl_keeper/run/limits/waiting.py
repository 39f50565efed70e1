"""The one place where the keeper's thread waits: for time, signals, its children, the client's pipe and the driver's process."""

import signal
import time

from rayctl_keeper.host.process import reap
from rayctl_keeper.run.limits.ends import announced, notice
from rayctl_keeper.state import model
from rayctl_keeper.state.exits import Detached, End, Leaving, limit_end
from rayctl_keeper.state.model import Cause

POLL = 0.15  # seconds between questions while something is awaited
FOLLOWS = 2.0  # seconds within which the keeper gets the signal that has ended its nodes
LAZY = 1.0  # while nothing is expected, or where the end of the driver's process wakes the thread
TOLD = 1.0  # seconds that the record's pod gets to read why a driver is going to be stopped
NEAR = {Cause.TIME_LIMIT: "the time limit of its nodes is near", Cause.PREEMPTED: "its nodes are preempted for another job"}  # what Slurm warns of
INTERRUPTS = "somebody cancelled it, or its machine shuts down"  # whoever sends SIGTERM


class Waiting:
    """Waits, and acts on what came meanwhile."""

    def __init__(self, orders, bell, mail, nodes, gang, elastic, gpus, driver, limits, state):
        self._causes = orders.get("signals") or {}  # by the signal's name
        self._grace, self._start = float((orders.get("job") or {}).get("grace") or 0), orders.get("start") or {}
        self._announced = None  # by Slurm's warning: see ends.announced
        self._bell, self._mail, self._nodes, self._gang, self._elastic, self._gpus = bell, mail, nodes, gang, elastic, gpus
        self._driver, self._limits, self._state = driver, limits, state
        self.early = self.placed = self.warned = self.hopeless = self.unmet = None  # set by their owner
        self.stopping = False  # the nodes are being ended: a child that ends is no failure

    def pause(self, seconds):
        """Waits, reads the mail, looks after children and limits. Raises End or AttemptLost."""
        now = time.monotonic()
        due = self._limits.next()
        if due is not None:
            seconds = min(seconds, due - now)
        self.rest(seconds)
        self.obey()
        if self._mail.leaving is not None:
            leaving, self._mail.leaving = self._mail.leaving, None
            raise Leaving(*leaving)
        self.hopeless.check()
        name = self._limits.passed(time.monotonic())
        if name:
            reason = "" if self._gang.complete else self._state.doc["reason"]["message"]  # before all nodes were there
            raise limit_end(name, self._limits.seconds[name], reason)

    def obey(self):
        """Raises the End that somebody has asked for, by the API or by a signal."""
        if self._mail.asked is not None:
            raise self._mail.asked
        for number in self.signals():
            if not self._comes_early(number):
                raise self.signalled(number)

    def obey_behind(self):
        """The same when nodes have ended. Slurm signals the step and the keeper: the end of the step, of which the keeper hears first, is none of its nodes'."""
        until = time.monotonic() + FOLLOWS
        while self._nodes.signals_follow and not self.signals() and time.monotonic() < until:
            self._bell.wait(until - time.monotonic())
        self.obey()

    def rest(self, seconds):
        """Waits and reads the mail, without acting on limits."""
        ready = self._bell.wait(seconds, self._driver.fds() + self._mail.stdin_fds())
        self._driver.notice(ready)
        self._mail.read_mail(ready)
        for name, code in self._nodes.ended(reap()):
            if not self.stopping and not self._elastic.ended(name, code) and not self.early.ended(name):
                self._gang.child_ended(name, code)
        if not self.stopping:
            self._elastic.look()
            self.early.look()
            self.placed.look()
            self._gpus.look()
            self.unmet.look()
            self.warned.look()

    def _comes_early(self, number):
        """Slurm warns up to a minute before it is due (sbatch(1), --signal). Until then the run goes on: its driver knows that moment."""
        if signal.Signals(number) != signal.SIGUSR1 or "USR1" in self._causes:
            return False
        cause, end, span = self.warning()
        return cause == Cause.TIME_LIMIT and end > 0 and time.time() < end - notice(self._start, span)

    def warning(self):
        """What Slurm's warning announces. It is asked once."""
        self._announced = self._announced or announced(self._grace, self._nodes.warned())
        return self._announced

    def signals(self):
        """The signals that the keeper got."""
        return self._bell.signals

    def signalled(self, number):
        """The End for a signal; the orders may give other causes than these."""
        name = signal.Signals(number).name[3:]
        cause = self.warning()[0] if name == "USR1" else Cause.INTERRUPTED
        why = NEAR.get(cause, INTERRUPTS)
        ordered = self._causes.get(name, cause)
        if ordered == "detach":
            return Detached()
        end = End(ordered, model.SIGNALLED + name + (": " + why if ordered == cause else ""))
        end.signalled = True
        return end
