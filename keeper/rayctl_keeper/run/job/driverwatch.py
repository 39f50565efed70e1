"""The driver of the present attempt, as the keeper sees it: Ray's record of it, its process where that runs on this host, its log."""

import os
import time

from rayctl_keeper.driver import rayjob
from rayctl_keeper.host.process import pidfd_open, readable
from rayctl_keeper.run.limits.waiting import LAZY, POLL
from rayctl_keeper.state.model import Event, JobState

SOON, SOON_FOR = 0.03, 1.0  # after the driver's process has ended: Ray's record shows it within a tenth of a second
REAPED = 3.0  # after its supervisor was killed: Ray looks for that each second (job_supervisor.py)
SEARCHES = 20  # for the driver's process, before it is taken to run elsewhere


class DriverWatch:
    """Follows the driver's process, and writes what is seen of the driver into the state document."""

    def __init__(self, nodes, state, driver_log):
        self._nodes, self._state, self._log = nodes, state, driver_log
        self._submission_id, self._kind, self._searches = "", Event.JOB, 0
        self._fd = None  # readable when the driver's process ends
        self._ended = float("-inf")  # when that was seen to end

    def expect(self, submission_id, kind=Event.JOB):
        """The driver of this submission is the next to run, or job.prepare ("prepare"), which is watched in the same way."""
        self._submission_id, self._kind = submission_id, kind
        self._searches = 0 if self._nodes.external else SEARCHES
        self._ended = float("-inf")

    def program(self):
        """What the state document has of it; None without a job."""
        return self._state.doc["job"] and self._state.program(self._kind)

    @property
    def is_job(self):
        """Whether it is the job, and not job.prepare."""
        return self._kind == Event.JOB

    @property
    def runs(self):
        """Whether its process is seen to run on this host."""
        return self._fd is not None

    @property
    def ended(self):
        """Whether its process was seen to end."""
        return self._ended > float("-inf")

    def fds(self):
        """File descriptors to wait for."""
        return [] if self._fd is None else [self._fd]

    def notice(self, ready):
        """Whether the process is among those file descriptors: it has ended."""
        if self._fd is not None and self._fd in ready:
            self._close()
            self._searches, self._ended = 0, time.monotonic()

    def pace(self, silent):
        """Seconds until Ray is asked for the job again."""
        if self._fd is not None and not silent:
            return LAZY
        return SOON if time.monotonic() < self._ended + SOON_FOR else POLL

    def take(self, info):
        """Ray's record of the job; the driver's process and log, once it runs."""
        fields = rayjob.fields(info)
        running = fields["state"] == JobState.RUNNING and fields["driverNodeId"]
        if running and self._fd is None and self._searches > 0:
            self._searches -= 1
            pid = rayjob.find_driver(self._submission_id, self._nodes.directories())
            if pid:
                self._fd = pidfd_open(pid)
                if self._kind == Event.JOB:
                    fields["driverPid"] = pid
        self._state.change_program(self._kind, **fields)
        if fields["driverNodeId"]:
            self._log.begin(self._state.doc["job"]["logFile"], fields["driverNodeId"], self._nodes.directories(), stream=bool(running))

    def await_end(self, limit):
        """Until its process has ended, where it is seen on this host, at most so many seconds: a driver whose supervisor was killed has a moment to write."""
        if self._fd is not None:
            readable([self._fd], limit)

    def pump(self):
        """Takes over what the driver has written since."""
        self._noting_gaps(self._log.pump)

    def collect(self, reachable):
        """Saves the driver's log as far as it goes; over HTTP only if the head may still answer."""
        job = self._state.doc["job"]
        if job and job["logFile"]:
            self._log.begin_late(job["logFile"], self._nodes.directories())
        ended = bool(job) and (self.program()["state"] in rayjob.TERMINAL or self.ended or bool(readable(self.fds(), 0)))
        self._noting_gaps(lambda: self._log.finish(reachable, ended))
        if self._fd is not None:
            self._close()

    def collect_rest(self):
        """When the nodes have ended: what the driver wrote after collect()."""
        self.collect(reachable=False)
        self._noting_gaps(self._log.take_rest)

    def _noting_gaps(self, take):
        """Gaps in the log are noted in the document, for a keeper that follows this one: those that take() finds, and those that were found meanwhile."""
        take()
        job, gaps = self._state.doc["job"], [list(gap) for gap in self._log.missing]
        noted = (job or {}).get("missing") or []
        if not job or gaps == noted:
            return
        for begin, end in gaps:
            if begin == end and [begin, end] not in noted:
                self._state.note(Event.FILES, "driver.log", "LogTruncated", "the driver's log was truncated at byte %d, and output may be missing there" % begin)
        self._state.change(job=dict(self._state.doc["job"], missing=gaps))

    def _close(self):
        os.close(self._fd)
        self._fd = None
