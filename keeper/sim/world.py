"""Virtual time: events that happen at their moments while processes wait, and the processes themselves, which may be killed between any two of their steps.

A process is what the keeper's code takes for one; its threads are actors, of which one runs at a time. Who waits lets the next event happen, which may be another
actor's turn: so the order of all steps follows from the seed."""

import heapq
import os
import random
import threading
import traceback


class Killed(BaseException):
    """SIGKILL of a process. No `except Exception` of the keeper sees it."""


class Violation(BaseException):
    """A promise of the keeper's that did not hold. The keeper does not see it, either."""


BEGIN, EPOCH = 1000.0, 1.8e9  # of the monotonic clock and of the wall clock
LONGEST = 6000.0  # virtual seconds of a life: all limits of a life's orders are below


class Process:
    """Has actors, an environment (None: the simulator's own) and a host (None: the only one)."""

    def __init__(self, world, name, environ=None, host=None):
        self.world, self.name, self.environ, self.host = world, name, environ, host
        self.killed = False  # or it has ended by itself
        self.actors = []
        self.children = {}  # those that have ended and were not reaped: pid -> exit code
        self.bell = self.keeper = self.nodes = self.state = None  # of a keeper's
        self.writes, self.kill_at_write = 0, None  # documents that it wrote; (number, after): it is killed before or after that write

    def end(self):
        """Nothing of it takes another step."""
        self.killed = True
        for actor in self.actors:
            self.world.wake(actor)


class Actor:
    """A thread of a process."""

    def __init__(self, world, process, run):
        self.world, self.process, self._run = world, process, run
        self.turn, self.done = 0, False  # of its waits, the present one
        self.baton = threading.Lock()
        self.baton.acquire()
        process.actors.append(self)
        world.actors.append(self)
        if run is not None:
            threading.Thread(target=self._live, daemon=True).start()

    def _live(self):
        self.baton.acquire()
        world = self.world
        try:
            if not self.process.killed:
                self._run()
        except Killed:
            pass
        except BaseException as error:
            world.fail(error)
        self.done = True
        self.process.actors.remove(self)
        world.actors.remove(self)
        world.leave()


class World:
    """The clock and what is going to happen. Everything else of a life hangs on it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now, self.jump = BEGIN, 0.0
        self._events, self._number = [], 0
        self.actors, self.failure, self._closing = [], None, False
        self.happens = False  # no process has its turn: an event does, which takes no time
        self.main = self.current = Actor(self, Process(self, "main"), None)
        self.killings = 0
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
        """The wall clock of the host of whoever asks."""
        host = self.current.process.host
        return EPOCH + self.now + self.jump + (host.jump if host else 0.0)

    def after(self, seconds, happen, *arguments):
        """happen(*arguments) in so many seconds."""
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, happen, arguments))

    # Actors.

    def start(self, process, run):
        """Another actor begins."""
        actor = Actor(self, process, run)
        self.wake(actor)
        return actor

    def wake(self, actor):
        """It has its turn, if it waits."""
        self._number += 1
        heapq.heappush(self._events, (self.now, self._number, None, (actor, actor.turn)))

    def block(self, until):
        """The present actor waits until then, or until somebody wakes it."""
        self.look()
        actor = self.current
        actor.turn += 1
        if not self._events or self._events[0][0] > until:
            self.now = max(self.now, until)
            return self.look()
        self._number += 1
        heapq.heappush(self._events, (until, self._number, None, (actor, actor.turn)))
        turn = self._next()
        if turn is not actor:
            self._hand_to(turn)
            actor.baton.acquire()
        return self.look()

    def _next(self):
        """Lets events happen until it is an actor's turn; returns that. The present one's, if it was killed."""
        while True:
            moment, _, happen, arguments = heapq.heappop(self._events)
            self.now = max(self.now, moment)
            if happen is None:
                actor, turn = arguments
                if actor.turn == turn and not actor.done:
                    return actor
                continue
            self.events, self.happens = self.events + 1, True
            try:
                happen(*arguments)
                self.happens = False
            except BaseException as error:
                self.fail(error)
                raise self.failure
            if self.current.process.killed and not self.current.done:
                return self.current

    def _hand_to(self, actor):
        self.current = actor
        os.environ = actor.process.environ if actor.process.environ is not None else ENVIRON
        actor.baton.release()

    def leave(self):
        """An actor has ended: it is another one's turn."""
        if not self._closing and self.failure is None:
            try:
                return self._hand_to(self._next())
            except BaseException as error:
                self.fail(error)
        return self._hand_to(self.main)

    def fail(self, error):
        """The life ends here, with this."""
        if self.failure is None:
            self.failure = error if isinstance(error, Violation) else Violation("".join(traceback.format_exception(type(error), error, error.__traceback__)))

    def close(self):
        """No actor is left."""
        self._closing = True
        for actor in [a for a in self.actors if a is not self.main]:
            actor.process.killed = True
            while not actor.done:
                self._hand_to(actor)
                self.main.baton.acquire()
        os.environ = ENVIRON

    # Time.

    def sleep(self, seconds):
        self.spend(seconds)

    def spend(self, seconds):
        """The present actor is busy for so long, for example with a request."""
        until = self.now + seconds
        while True:
            self.block(until)
            if self.now >= until:
                return

    def look(self):
        """Raises Killed if the present process was killed, and Violation if it lives for ever."""
        if self.current is not self.main and (self._closing or self.failure is not None):
            raise Killed()
        if self.failure is not None:
            raise self.failure
        if self.current.process.killed:
            raise Killed()
        # A keeper that follows another one takes over limits in the time of the clock, which may have jumped back.
        if self.now - BEGIN > LONGEST - min(0.0, self.jump):
            raise Violation("the life does not end: %d virtual seconds" % LONGEST)

    def run_on(self, seconds):
        """Time passes without a keeper."""
        self.main.process = Process(self, "main")
        self.spend(seconds)

    def kill(self, process):
        """SIGKILL of a keeper."""
        if not process.killed:
            self.fault("the %s is killed" % process.name)
            self.killings += 1
            process.end()


ENVIRON = os.environ


class Bell:
    """In the place of host.process.Bell."""

    def __init__(self, world, told=None):
        self._world, self._rung, self._waits, self._told = world, False, None, told
        self.signals = []
        self.on_signal = None
        self.readable = {}  # file descriptor -> function that says whether it can be read

    def catch(self, *numbers):
        pass

    def ring(self):
        self._rung = True
        if self._waits is not None:
            self._world.wake(self._waits)

    def signal(self, number):
        """The keeper gets a signal."""
        self.signals.append(number)
        if self._told:
            self._told(number)
        if self.on_signal:
            self.on_signal()
        self.ring()

    def ready(self, fds):
        return [fd for fd in fds if fd in self.readable and self.readable[fd]()]

    def wait(self, seconds, fds=()):
        world = self._world
        world.spend(0.0002)
        until = world.now + max(0.0, min(86400.0, 86400.0 if seconds is None else seconds))
        self.wait_until(lambda: self._rung or self.ready(fds), until)
        self._rung = False
        return self.ready(fds)

    def wait_until(self, ready, until):
        """Until it is so, of which the bell tells, or until then."""
        world, self._waits = self._world, self._world.current
        try:
            while not ready() and world.now < until:
                world.block(until)
        finally:
            self._waits = None
