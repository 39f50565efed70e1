"""How an attempt begins, and what follows one that ended, or a start that failed: the next one, or the end."""

import os
import time

from rayctl_keeper.driver import rayjob
from rayctl_keeper.run import finalize, resume
from rayctl_keeper.run.silence import silence_of
from rayctl_keeper.state.document import ended_attempt, new_job, wall
from rayctl_keeper.state.exits import End

STARTS = 3  # in a row without success
WORTH_ANOTHER_START = ("already occupied", "already running at", "Address already in use", "Failed to bind", "rrno: 98", "Errno 98",
                       "imed out", "Failed to start the dashboard")


class Attempts:
    """The part of the keeper that counts attempts and starts the cluster again."""

    def submit(self, submission_id):
        """Gives Ray packages and job, unless it knows the job: asked until it answers, because a silent head may. Returns whether a keeper
        before this one did. Raises AttemptLost."""
        self.driver_ended = float("-inf")
        if self.submitted(self.state.doc["attempt"]):
            return True
        silence = silence_of(self)
        if rayjob.patiently(lambda: rayjob.knows(self.dashboard, submission_id, silence.patience()), silence, self.pause):
            return False
        packages = (self.commit or {}).get("packages") or []
        while True:
            missing = rayjob.patiently(lambda: rayjob.upload(self.dashboard, self.run_dir, packages), silence, self.pause)
            if not missing:
                break
            resume.await_packages(self, missing)
        rayjob.submit(self.dashboard, self.body, silence, self.pause)
        return False

    def submitted(self, number):
        """Whether a keeper before this one submitted the attempt: it is not submitted again to a head that does not know it, which is another one."""
        if self.state.doc["job"]["state"] != "WAITING":
            return True
        try:
            with open(os.path.join(self.run_dir, "submitted")) as f:
                return number <= int(f.read())
        except (OSError, ValueError):
            return False

    def restart_cluster(self, lost):
        """The cluster broke: starts it again if the orders allow it, else ends."""
        finalize.collect(self, reachable=False)
        if not self.in_use:
            self.fail_start(str(lost))
            return
        limit = ((self.orders.get("job") or {}).get("restarts") or {}).get("nodeFailure", 0)
        if limit >= 0 and self.used["nodeFailure"] >= limit:
            raise End("lost", str(lost))
        self.used["nodeFailure"] += 1
        self.state.phase("Lost", "NodeFailure", str(lost))
        self.next_attempt("lost", str(lost), None)
        self.start_again()

    def fail_start(self, message):
        """A start that failed is tried again where that may help: a port taken at the last moment, an overloaded host."""
        self.failed_starts += 1
        if not any(t in message for t in WORTH_ANOTHER_START) or self.failed_starts >= STARTS:
            raise End("lost" if self.used["nodeFailure"] else "start-failed", message)
        self.state.note("restart", "Starting", "StartFailed", message)
        self.start_again()

    def start_again(self):
        """All nodes anew."""
        self.stopping = True
        self.nodes.stop()
        self.stopping = self.in_use = False
        self.gang.forget()
        self.nodes.start()
        if self.nodes.queued and not self.nodes.granted:
            self.wait_for_slot()
        self.limits.stop("start")
        self.limits.begin("start", time.monotonic())
        self.state.change(nodes=[], head=dict(self.state.doc["head"], session="", nodeId=""))
        self.state.phase("Starting", "WaitingForHead", "Ray is starting")

    def next_attempt(self, cause, message, code):
        """Records the attempt that ended and counts on."""
        self.record_attempt(cause, message, code)
        self.driver_log.put_aside()
        if self.orders.get("job"):
            self.reason = cause
            self.state.note("restart", "attempt %d" % (self.state.doc["attempt"] + 1), cause, message)
        self.state.change(attempt=self.state.doc["attempt"] + 1, job=new_job() if self.orders.get("job") else None)

    def record_attempt(self, cause, message, code):
        """Adds to `attempts`."""
        doc = self.state.doc
        self.state.change(attempts=doc["attempts"] + [ended_attempt(doc, cause, message, code, wall())])
