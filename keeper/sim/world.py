"""Virtual time: events that happen at their moments while the keeper waits, and the process that is the keeper, which may be killed between any two of its steps."""

import heapq
import random


class Killed(BaseException):
    """SIGKILL of the keeper. No `except Exception` of the keeper sees it."""


class Violation(BaseException):
    """A promise of the keeper's that did not hold. The keeper does not see it, either."""


BEGIN, EPOCH = 1000.0, 1.8e9  # of the monotonic clock and of the wall clock
LONGEST = 6000.0  # virtual seconds of a life: all limits of a life's orders are below


class World:
    """The clock and what is going to happen. Everything else of a life hangs on it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now, self.jump = BEGIN, 0.0
        self._events, self._number = [], 0
        self.killed = False  # the keeper, since the last start of one
        self.killings = 0
        self.writes = 0  # documents that a keeper wrote
        self.kill_at_write = None  # (number, after): the keeper is killed before or after that write
        self.disk_full_until = 0.0
        self.trace = []
        self.faults = []  # what happened that the keeper had not asked for
        self.events = 0

    def say(self, text):
        """A line of the trace."""
        self.trace.append("%9.3f %s" % (self.now - BEGIN, text))

    def fault(self, text):
        """A line of the trace that tells of a disturbance."""
        self.faults.append((self.now, text))
        self.say("! " + text)

    def chance(self, probability):
        return self.random.random() < probability

    def between(self, low, high):
        return self.random.uniform(low, high)

    def monotonic(self):
        return self.now

    def time(self):
        return EPOCH + self.now + self.jump

    def sleep(self, seconds):
        self.spend(seconds)

    def after(self, seconds, happen, *arguments):
        """happen(*arguments) in so many seconds."""
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, happen, arguments))

    def step(self, until):
        """Lets the next event happen that is due until then; without one the time is then. Returns whether there was one."""
        if not self._events or self._events[0][0] > until:
            self.now = max(self.now, until)
            return False
        moment, _, happen, arguments = heapq.heappop(self._events)
        self.now = max(self.now, moment)
        self.events += 1
        happen(*arguments)
        return True

    def spend(self, seconds):
        """The keeper is busy for so long, for example with a request."""
        until = self.now + seconds
        while self.step(until):
            self.look()
        self.look()

    def look(self):
        """Raises Killed if the keeper was killed, and Violation if it lives for ever."""
        if self.killed:
            raise Killed()
        if self.now - BEGIN > LONGEST:
            raise Violation("the life does not end: %d virtual seconds" % LONGEST)

    def run_on(self, seconds):
        """Time passes without a keeper."""
        until = self.now + seconds
        while self.step(until):
            pass

    def kill_keeper(self):
        self.fault("the keeper is killed")
        self.killings += 1
        self.killed = True


class Bell:
    """In the place of host.process.Bell."""

    def __init__(self, world):
        self._world, self._rung = world, False
        self.signals, self._seen = [], 0
        self.on_signal = None
        self.readable = {}  # file descriptor -> function that says whether it can be read

    def ring(self):
        self._rung = True

    def signal(self, number):
        """The keeper gets a signal."""
        self.signals.append(number)
        if self.on_signal:
            self.on_signal()
        self._rung = True

    def ready(self, fds):
        return [fd for fd in fds if fd in self.readable and self.readable[fd]()]

    def wait(self, seconds, fds=()):
        world = self._world
        world.spend(0.0002)
        until = world.now + max(0.0, min(86400.0, 86400.0 if seconds is None else seconds))
        while not self._rung and not self.ready(fds):
            if not world.step(until):
                break
            world.look()
        world.look()
        self._rung = False
        return self.ready(fds)
