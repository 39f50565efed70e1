"""A keeper of an external cluster goes on from the state of the keeper before it: after a restart in the same run directory (the directory has
everything), or in another pod (the directory has the state document that somebody kept, but no output)."""

import os
import time

from rayctl_keeper.driver.rayjob import prepare_id
from rayctl_keeper.ray.dashboard import Refused, Unreachable
from rayctl_keeper.run.head.silence import PATIENT
from rayctl_keeper.state.conclude import named
from rayctl_keeper.state.document import log_file, seconds_of
from rayctl_keeper.state.exits import End, Leaving
from rayctl_keeper.state.model import Cause, Event, JobState, Phase

CARRIED = ("revision", "attempt", "changes", "phase", "reason", "since", "groups", "head", "nodes", "gpus", "allocations", "formerAllocations", "job", "committed", "lastRenewal", "endOnDisconnect",
           "deadlines", "timeline")
WAITING = ("", Phase.QUEUED, Phase.PROVISIONING)  # phases before the head's first answer; Queued also while the gang of an early head waits
ENDING = (Phase.DRAINING, Phase.GONE)


def waits(doc, held):
    """Whether a document is of a cluster that waits for its head's first answer. One that a queueing system holds waits for it again after a loss."""
    return doc.get("phase") in WAITING or held and doc.get("phase") == Phase.LOST


class Resumption:
    """What is taken over from an earlier keeper's document; nothing where there was none."""

    def __init__(self, earlier, run_dir, limits, driver_log, state, log):
        """`earlier` is a state document, or only {"deadlines": ...}, or nothing: see keeper.predecessor."""
        self.earlier, self._run_dir, self._limits = earlier, run_dir, limits
        self._driver_log, self._state, self._log = driver_log, state, log
        self.resumed = bool(earlier.get("timeline"))  # this keeper goes on where another one was lost

    def carry(self):
        """Takes over the document, and adds an event to the timeline."""
        fields = {name: self.earlier[name] for name in CARRIED if self.earlier.get(name) is not None}
        if self._state.doc["job"] is None:
            fields.pop("job", None)
        for name in ("job", "head"):  # a document that a client kept lacks what was 0 or empty
            if fields.get(name) is not None:
                fields[name] = dict(self._state.doc[name], **fields[name])
        self._log("follows a keeper that was in phase %s, attempt %s" % (fields.get("phase"), fields.get("attempt")))
        fields["attempts"] = ended_before(self.earlier)  # in the same document: this keeper may be killed after any
        event = {"event": "keeper", "to": "resumed", "code": "", "message": "another keeper continues", "attempt": fields["attempt"]}
        self._state.change(event, **fields)

    def resume_log(self):
        """The output of the attempt that was under way: what is in the run directory stays, the rest comes from the head."""
        job = self._state.doc["job"] or {}
        begin, prepare = job.get("logBegin") or 0, job.get("prepare") or {}
        self._driver_log.missing = [list(gap) for gap in job.get("missing") or []]
        if begin > 0:
            self._driver_log.goes_before(log_file(prepare["submissionId"]), prepare["driverNodeId"], begin)
        program = prepare if begin < 0 else job
        if program.get("driverNodeId"):
            self._driver_log.begin(job["logFile"], program["driverNodeId"], [], stream=program["state"] == JobState.RUNNING, resume=True)

    def resume_limits(self, awaits_nodes, held):
        """Limits count from when they counted, and fall due when they were to. awaits_nodes: see run/gang/placed.py; held: see Nodes."""
        offset, waited = time.monotonic() - time.time(), waits(self.earlier, held)
        if waited:
            self._limits.begin("queue", seconds_of(self.earlier["since"]) + offset)
            if not (self.earlier.get("head") or {}).get("session"):
                return
        if self.earlier.get("phase") == Phase.STARTING and awaits_nodes:
            self._limits.begin("queue", self._queued_since() + offset)
        elif self.earlier.get("phase") == Phase.STARTING:
            self._limits.begin("start", seconds_of(self.earlier["since"]) + offset)
        for name, due in (self.earlier.get("deadlines") or {}).items():
            if name in ("max", "total") and not (due is None and waited):  # before the admission they do not count, and are not taken away
                self._limits.resume(name, due and seconds_of(due) + offset)

    def _queued_since(self):
        """When the cluster began to wait for its nodes."""
        queued = [e["at"] for e in self.earlier["timeline"] if e["event"] == Event.PHASE and e.get("to") == Phase.QUEUED]
        return seconds_of(queued[-1] if queued else self.earlier["since"])

    def was_leaving(self):
        """The message and the seconds of a head that was being taken away from the keeper before this one, which had not begun the next attempt. None: there is none."""
        reason = self._reason_to_stop()
        return (reason["message"], 0.0) if reason.get("code") == Cause.PREEMPTED else None

    def was_stopping(self, info):
        """Raises why the keeper before this one stopped the program of this record: it had noted that before, and nobody else has stopped it then."""
        if info["status"] != JobState.STOPPED or self.earlier.get("attempt") != self._state.doc["attempt"]:
            return
        reason = self._reason_to_stop()
        if reason.get("code") == Cause.MAX:
            raise End(Cause.MAX, reason["message"])
        if reason.get("code") == Cause.PREEMPTED:
            raise Leaving(reason["message"], 0.0)

    def _reason_to_stop(self):
        """What the keeper before this one noted before it stopped the driver of a cluster that went on; {} if it had not."""
        return (self.earlier.get("reason") or {}) if self.earlier.get("phase") == Phase.READY else {}

    def recover_logs(self, dashboard):
        """The output of attempts that have ended, where the run directory lost it with its pod, as far as the head still has it."""
        if not self.resumed or dashboard is None:
            return
        for attempt in self._state.doc["attempts"]:
            path = os.path.join(self._run_dir, "driver-%d.log" % attempt["attempt"])
            if not attempt["submissionId"] or os.path.exists(path):
                continue
            try:
                last = attempt["submissionId"] if (attempt.get("logBegin") or 0) >= 0 else prepare_id(attempt["submissionId"])
                info = dashboard.job(last, PATIENT) or {}
                if info.get("driver_node_id"):
                    self._driver_log.fetch(log_file(last), info["driver_node_id"], path, self._before(dashboard, attempt))
            except (Unreachable, Refused, OSError) as error:
                self._log("the output of attempt %d cannot be read again: %s" % (attempt["attempt"], error))

    @staticmethod
    def _before(dashboard, attempt):
        """For DriverLog.goes_before: where what job.prepare printed in an attempt is; None if it did not run."""
        if (attempt.get("logBegin") or 0) <= 0:
            return None
        submission_id = prepare_id(attempt["submissionId"])
        info = dashboard.job(submission_id, PATIENT) or {}
        return log_file(submission_id), info.get("driver_node_id") or "", attempt["logBegin"]


def ended_before(earlier):
    """The attempts of a document that have ended. One that was about to be counted is still to be judged."""
    return [a for a in earlier.get("attempts") or [] if a["attempt"] < (earlier.get("attempt") or 1)]


def the_end(earlier):
    """The End that was being carried out. None: it must be found again."""
    if not (earlier.get("reason") or {}).get("code"):
        return End(Cause.LOST, "the keeper was lost while it ended the cluster")
    return named(earlier)
