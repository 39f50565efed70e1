"""Measures how busy a node's GPUs are: `keeper.pyz gpus COUNT PERIOD`, a line of JSON each PERIOD seconds.

This is a separate process, because NVML, and each process that calls it, hangs when a GPU does not answer on the bus any more."""

import json
import os
import sys
import time

from rayctl_keeper.node.gpus import nvml

IDLE = 2  # percent: a GPU with a lower utilization counts as idle, also if memory of it is in use
SAMPLE = 10.0  # seconds between two measurements


class Meter:
    """Sums up the utilization that NVML reports."""

    def __init__(self, count, environ, clock=time.monotonic):
        self._count, self._environ, self._clock = count, environ, clock
        self._source = None
        self._last = self._busy_at = clock()
        self._seconds = self._busy = 0.0

    def read(self):
        """Measures once, and returns the sums: GPU-seconds measured, GPU-seconds busy, seconds since a GPU was busy, and the reason if NVML cannot be read."""
        try:
            self._source = self._source or nvml.source()
            percents = [percent for _, percent in nvml.ours(self._source.read(), self._count, self._environ)]
            if None in percents:
                raise nvml.Unreadable("NVML has no utilization for %d of its %d GPUs, as for divided ones (MIG)" % (percents.count(None), len(percents)))
            message = ""
        except nvml.Unreadable as error:
            percents, message = [], str(error)
        now = self._clock()
        passed, self._last = now - self._last, now
        if not percents or max(percents) >= IDLE:  # a GPU that cannot be read may be busy
            self._busy_at = now
        self._seconds += passed * len(percents)
        self._busy += passed * sum(percents) / 100.0
        return {"count": self._count, "seconds": round(self._seconds, 1), "busySeconds": round(self._busy, 1), "idle": round(now - self._busy_at, 1), "message": message}


def period_of(orders):
    """Seconds between two reports: a tenth of lifetime.idleGpu, at most half a minute."""
    limit = float((orders.get("lifetime") or {}).get("idleGpu") or 0)
    return min(30.0, max(0.5, limit / 10.0)) if limit else 30.0


def main(arguments):
    """Entry point."""
    measure(int(arguments[0]), float(arguments[1]), to_supervisor)
    return 0


def measure(count, period, send):
    """Reports once in each period, until send returns that nobody receives the reports."""
    meter = Meter(count, os.environ)
    begun = "%d.%d" % (os.getpid(), time.time())  # sums begin anew with the process
    while True:
        until = time.monotonic() + period
        while time.monotonic() < until:
            time.sleep(max(0.0, min(SAMPLE, until - time.monotonic())))
            report = meter.read()
        if not send(dict(report, begun=begun)):
            return


def to_supervisor(report):
    """Sends a report to the supervisor; returns whether the supervisor still reads."""
    try:
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True
