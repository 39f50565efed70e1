"""The end of a cluster: it is announced, its steps are tried whatever fails on the way, and it is recorded."""

import os
import time

from rayctl_keeper.node.files import raytoken
from rayctl_keeper.run.limits.waiting import TOLD
from rayctl_keeper.state.document import RESERVE
from rayctl_keeper.state.exits import limit_end
from rayctl_keeper.state.model import Cause, JobState, Phase

POLL = 0.1


class Ending:
    """Carries out an End."""

    def __init__(self, orders, run_dir, limits, mail, waiting, attempts, driver_log, state, log):
        self._scratch = bool(orders.get("scratch"))
        self._run_dir, self._limits, self._mail, self._waiting = run_dir, limits, mail, waiting
        self._attempts, self._driver_log, self._state, self._log = attempts, driver_log, state, log

    def begin(self, end):
        """From here on neither children that end nor other requests count."""
        self._waiting.stopping = True
        self._mail.close()
        self._log("end %s: %s" % (end.cause, end.message))
        self._state.phase(Phase.DRAINING, end.cause, end.message)
        self._state.await_record(TOLD, self._waiting.rest)

    def try_each(self, steps):
        """Calls them in this order, whatever fails."""
        for step in steps:
            try:
                step()
            except Exception as error:
                self._log("at the end: %s: %s" % (type(error).__name__, error))

    def complete(self, end, client_asks_keeper):
        """Writes the result. client_asks_keeper: the client posts its commit to the keeper's API, and this waits for it (_heard)."""
        self._driver_log.close()
        try:
            if client_asks_keeper:
                end = self._heard(end)
        except Exception as error:  # a commit that cannot be taken: what ended the cluster is still worth a record
            self._log("at the end: %s: %s" % (type(error).__name__, error))
        self._record(end)

    def _heard(self, end):
        """A client that is still launching an external cluster posts its commit to the keeper, which must still be listening: so the end waits for
        the commit, or until the lease has passed. An end that the client itself requested does not wait."""
        if end.cause in (Cause.ABANDONED, Cause.DOWN, Cause.INTERRUPTED):
            return end
        while not self._state.doc["committed"] and not self._waiting.signals():
            due = self._limits.due("lease")
            if due is None or due <= time.monotonic():
                return limit_end("lease", self._limits.seconds["lease"], end.message)
            self._waiting.rest(POLL)
        return end

    def _record(self, end):
        """Writes result.json and removes what must not stay. The reserve makes room for it on a full disk."""
        for name in sorted(os.listdir(self._run_dir)):  # `token` is the last: whoever finds it knows that others may be left
            if name in ("token", "secrets.json", RESERVE) or name.startswith((raytoken.PREFIX, "package-")):
                os.unlink(os.path.join(self._run_dir, name))
        if self._state.doc["job"] is not None:
            job = self._state.doc["job"]
            begin = job["logBegin"] if job["logBegin"] < 0 else self._driver_log.begins_at
            message = end.message if job["state"] == JobState.STOPPED else job["message"]  # Ray has the same words for every stop
            self._state.change(job=dict(job, outputDir=self._left(job.get("outputDir")), logBegin=begin, message=message))
            self._attempts.record(end.cause, end.message, end.driver[0] if end.driver else self._state.doc["job"]["exitCode"])
        else:
            self._state.change(outputDir=self._left(self._state.doc["outputDir"]))
        self._state.final(os.path.join(self._run_dir, "result.json"), end.document(), self._driver_log.document())

    def _left(self, directory):
        """The output directory, if it outlives the cluster and a driver has written to it, as far as this host sees."""
        try:
            return "" if self._scratch or not directory or not os.listdir(directory) else directory
        except OSError:
            return directory  # a URI, or another host's
