"""The clock of a cluster: which limit ends it, and when. Pure: all times come in as monotonic seconds."""

from rayctl_keeper.state.document import LONGEST


class Limits:
    """Limits in seconds; 0 or None is none. Each has a moment from which it counts, None while it does not."""

    def __init__(self, lifetime, now):
        self.seconds = {name: float(lifetime.get(name) or 0)
                        for name in ("lease", "queue", "start", "max", "total", "idle", "idleGpu", "disconnect")}
        spent = float(lifetime.get("spent") or 0)
        if self.seconds["total"]:
            self.seconds["total"] = max(1e-3, self.seconds["total"] - spent)
        self.since = dict.fromkeys(self.seconds)
        self.since["lease"] = now
        self.told = False  # that idleGpu will end it; before that its moment changes all the time

    def begin(self, name, now):
        """A limit counts from now on, unless it does already."""
        if self.since[name] is None:
            self.since[name] = now

    def restart(self, name, now):
        """Activity: a limit counts anew."""
        self.since[name] = now

    def stop(self, name):
        """A limit does not count."""
        self.since[name] = None

    def extend(self, name, now, seconds):
        """The limit falls due that many seconds from now; 0 removes it. idle and idleGpu count only once there is something that could be idle."""
        self.seconds[name] = float(seconds)
        if name not in ("idle", "idleGpu") or self.since[name] is not None:
            self.since[name] = now

    def prolong(self, name, seconds):
        """The limit falls due that much later, but not so late that the moment could not be written."""
        self.seconds[name] = min(LONGEST, self.seconds[name] + float(seconds))

    def left(self, name, now):
        """Seconds until the limit falls due, all of them while it does not count; None: it never does."""
        seconds = self.seconds[name]
        return None if not seconds else seconds if self.since[name] is None else self.due(name) - now

    def resume(self, name, due):
        """As an earlier keeper had it: the limit falls due then; None: never, somebody took it away."""
        if due is None:
            self.seconds[name] = 0.0
            return
        self.seconds[name] = self.seconds[name] or 1.0  # somebody set one
        self.since[name] = due - self.seconds[name]

    def due(self, name):
        """When the limit falls due, None if never."""
        since, seconds = self.since[name], self.seconds[name]
        return None if since is None or not seconds else since + seconds

    def passed(self, now):
        """Name of the first limit that has passed, or None."""
        over = [(self.due(name), name) for name in self.seconds
                if self.due(name) is not None and self.due(name) <= now]
        return min(over)[1] if over else None

    def next(self):
        """The earliest moment at which a limit falls due, or None."""
        moments = [self.due(name) for name in self.seconds if self.due(name) is not None]
        return min(moments) if moments else None
