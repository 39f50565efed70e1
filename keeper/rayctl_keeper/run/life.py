"""The life of a cluster as a list of steps. One thread runs it; the API's threads only leave letters in its mailbox."""

import os
import signal
import socket
import time

from rayctl_keeper.driver import rayjob
from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.host.process import pidfd_open, reap
from rayctl_keeper.http.mail import Mailbox
from rayctl_keeper.ray.dashboard import Dashboard, Refused, Unreachable
from rayctl_keeper.run import finalize, idle, resume
from rayctl_keeper.run.attempts import Attempts
from rayctl_keeper.run.gang import Gang
from rayctl_keeper.run.limits import Limits
from rayctl_keeper.run.silence import silence_of
from rayctl_keeper.state import model
from rayctl_keeper.state.document import new_job, wall
from rayctl_keeper.state.exits import AttemptLost, Detached, End, limit_end

POLL = 0.15  # seconds between questions while something is awaited
LAZY = 1.0  # while nothing is expected, or the driver's process tells of its end by itself
SOON, SOON_FOR = 0.03, 1.0  # after the driver's process has ended: Ray says so within a tenth of a second
SEARCHES = 20  # for the driver's process, before it is taken to run elsewhere
LOOK = 3.0  # between looks at the nodes


class Keeper(Attempts, Mailbox):
    """Waits for the gang, runs the job, owns the end."""

    def __init__(self, orders, run_dir, token, nodes, bell, state, log):
        super().__init__(run_dir, bell, state)
        self.orders, self.token, self.nodes, self.log = orders, token, nodes, log
        self.limits = Limits(orders.get("lifetime") or {}, time.monotonic())
        self.dashboard = None
        self.driver_log = DriverLog(run_dir, lambda: Dashboard(nodes.dashboard, token), log)
        self.gang = Gang(orders, nodes, state)
        self.used = {"driver": 0, "nodeFailure": 0, "timeLimit": 0}  # restarts
        self.reason = orders.get("restartReason", "")
        self.body = None  # what was submitted last
        self.failed_starts = 0  # in a row
        self.in_use = False  # a cluster lost before that is one that failed to start
        self.driver_fd, self.searches = None, 0  # the driver's process, where it runs on this host
        self.driver_ended = float("-inf")  # when that was seen to end
        self.stopping = False  # children that end were asked to
        self.resumed = False  # it goes on where a keeper before it was lost
        self.next_look = 0.0

    def run(self):
        """The whole life; returns when nothing is left."""
        try:
            self.live()
        except Detached:
            self.log("leaves the cluster to the next keeper")
            return
        except End as end:
            finalize.finish(self, end)
        except Exception as error:  # a bug must not keep the nodes allocated
            import traceback
            self.log(traceback.format_exc())
            finalize.finish(self, End("lost", "the keeper failed: %s: %s" % (type(error).__name__, error)))

    def live(self):
        """Raises End."""
        self.admit()
        if self.asked is not None:  # the nodes did not start, or a keeper before this one was ending the cluster
            raise self.asked
        while True:
            try:
                self.wait_for_gang()
                self.wait_for_commit()
                if self.orders.get("job"):
                    self.run_job()
                self.keep()
            except AttemptLost as lost:
                self.restart_cluster(lost)

    # Steps.

    def admit(self):
        """Limits that count from admission begin; on an external cluster that is when the head first answers."""
        if self.nodes.external:
            resume.look_for_packages(self)
            if self.state.doc["phase"] in resume.WAITING:
                self.limits.begin("queue", time.monotonic())
                self.state.phase("Queued", "WaitingForHead", "the head has no address yet")
            return
        if self.nodes.queued and self.asked is None:
            self.wait_for_slot()
        self.admitted()
        self.state.phase("Starting", "WaitingForHead", "Ray is starting")

    def wait_for_slot(self):
        """Until the queue has a slot for the nodes, which then start."""
        self.limits.begin("queue", time.monotonic())
        self.state.phase("Queued", "NoFreeSlot", "the queue has no free slot")
        try:
            while not self.nodes.granted:
                self.look_for_commit()
                self.pause(LAZY if self.state.doc["committed"] else POLL)
        except AttemptLost as lost:  # somebody has removed it from the queue
            raise End("start-failed", str(lost))
        self.limits.stop("queue")
        self.nodes.start()

    def admitted(self):
        """The nodes are ours."""
        now = time.monotonic()
        self.limits.stop("queue")
        for name in ("max", "total", "start"):
            self.limits.begin(name, now)
        self.show_deadlines()

    def wait_for_gang(self):
        """Until all nodes of the gang are ALIVE in Ray."""
        self.dashboard = self.mail_aborts = Dashboard(self.nodes.dashboard, self.token)
        while not self.gang.complete:
            try:
                if self.gang.session is None:
                    self.greet()
                if self.gang.count(self.dashboard.state("nodes", 2.0)):
                    break
            except Unreachable as error:
                self.placed(error)
            except Refused as refused:
                if refused.status in (401, 403):
                    raise End("start-failed", "the head's dashboard refuses the cluster's token: %s" % refused)
            self.pause(POLL)
        self.limits.stop("start")
        if not self.orders.get("job"):
            self.limits.begin("idle", time.monotonic())  # whoever reads Ready reads the deadline, too
            self.show_deadlines()
        self.state.phase("Ready")

    def placed(self, error):
        """A head whose name has an address is a pod that runs on a node, also if it does not answer yet: the name of a headless Service has the
        addresses of its pods, and a pod gets one from its node (Kubernetes' documentation, "DNS for Services and Pods", "Pod Lifecycle")."""
        if self.state.doc["phase"] == "Queued" and not isinstance(error.__context__, socket.gaierror):
            self.state.phase("Provisioning", "WaitingForHead", "the head does not answer yet")

    def greet(self):
        """The head's first answer; on an external cluster it means admission."""
        self.gang.greet(self.dashboard.version())
        if self.nodes.external:
            self.admitted()
            self.state.phase("Starting", "WaitingForNodes", "the head answers")

    def wait_for_commit(self):
        """Until the client is done with its part."""
        while not self.state.doc["committed"]:
            self.look_for_commit()
            if not self.state.doc["committed"] and self.nodes.external and self.orders.get("job"):
                self.adopt()
            self.pause(0 if self.state.doc["committed"] else POLL)

    def adopt(self):
        """A keeper that follows another and was given no commit document finds the job on the head: so it was committed, whatever the document
        says. That of the client is taken when it comes."""
        submission_id = "%s-%d" % (self.orders["job"]["submissionPrefix"], self.state.doc["attempt"])
        if rayjob.dashboard_has(self.dashboard, submission_id):
            self.log("job %s is there already" % submission_id)
            self.committed()

    def run_job(self):
        """Submits the driver and follows it; again if it may be restarted. Raises End."""
        while True:
            self.body = rayjob.submission(self.orders, self.commit or {}, self.state.doc["attempt"], self.reason)
            submission_id = self.body["submission_id"]
            if self.state.doc["job"]["submissionId"] != submission_id:
                self.state.change(job=new_job(submission_id, self.body["entrypoint"]))
            self.searches = 0 if self.nodes.external else SEARCHES
            submitted = self.submit(submission_id)
            self.in_use, self.failed_starts = True, 0
            try:
                info = self.follow(submission_id, submitted)
                end = rayjob.outcome(info)
            except End as limit:
                self.after_max(limit)
                continue
            if end.cause == "submit-failed":  # as with a runtime environment that cannot be made: Ray's message has its traceback
                self.driver_log.instead(self.state.doc["job"]["logFile"], rayjob.whole_message(info))
            finalize.collect(self, reachable=True)
            limit = (self.orders["job"].get("restarts") or {}).get("driver", 0)
            if end.driver is None or end.driver[0] == 0 or (limit >= 0 and self.used["driver"] >= limit):
                raise end
            self.used["driver"] += 1
            self.next_attempt("driver-failed", end.message, end.driver[0])

    def after_max(self, limit):
        """lifetime.max is an attempt's: the next one follows on the same nodes if the orders allow it. On Slurm the job's time limit is that of
        lifetime.max, so there slurm/start.py asks for another job. Raises the End otherwise."""
        wanted = (self.orders["job"].get("restarts") or {}).get("timeLimit", 0)
        if limit.cause != "max" or self.orders["start"]["mode"] == "step" or 0 <= wanted <= self.used["timeLimit"]:
            raise limit
        finalize.stop_drivers(self, limit, others=False)
        if self.asked is not None or self.bell.signals or self.state.doc["job"]["state"] not in rayjob.TERMINAL:
            raise limit  # never two drivers
        finalize.collect(self, reachable=True)
        self.used["timeLimit"] += 1
        self.limits.extend("max", time.monotonic(), self.orders["lifetime"]["max"])
        self.show_deadlines()
        self.next_attempt("time-limit", limit.message, None)

    def follow(self, submission_id, seen):
        """Until Ray says that the driver has ended; returns its record. `seen`: Ray knew it."""
        silence = silence_of(self)
        while True:
            try:
                info = self.dashboard.job(submission_id, silence.patience())
                silence.broken()
                if info is None:
                    if seen:
                        raise AttemptLost("the head was restarted and does not know the job any more")
                else:
                    seen = True
                    self.take(info)
                    if info["status"] in rayjob.TERMINAL:
                        return info
                self.watch_cluster()
            except Refused as refused:
                self.log("asking for the job: %s" % refused)
            except Unreachable as error:
                silence.goes_on(error)
            self.driver_log.pump()
            self.pause(self.pace(silence))

    def pace(self, silence):
        """Seconds until Ray is asked for the job again."""
        if self.driver_fd is not None and silence.since is None:
            return LAZY
        return SOON if time.monotonic() < self.driver_ended + SOON_FOR else POLL

    def take(self, info):
        """Ray's record of the job; the driver's process and log, once it runs."""
        fields = rayjob.fields(info)
        running = fields["state"] == "RUNNING" and fields["driverNodeId"]
        if running and self.driver_fd is None and self.searches > 0:
            self.searches -= 1
            pid = rayjob.find_driver(self.body["submission_id"], self.nodes.directories())
            if pid:
                self.driver_fd = pidfd_open(pid)
                fields["driverPid"] = pid
        self.state.job(**fields)
        if fields["driverNodeId"]:
            self.driver_log.begin(self.state.doc["job"]["logFile"], fields["driverNodeId"], self.nodes.directories(), stream=bool(running))

    def watch_cluster(self, timeout=2.0):
        """Now and then: is it still the same head, which nodes are there."""
        now = time.monotonic()
        if now >= self.next_look:
            self.next_look = now + LOOK
            self.gang.same_head(self.dashboard.version(timeout))
            self.gang.changes(self.dashboard.state("nodes", timeout))

    def keep(self):
        """A cluster without a job: until somebody or a limit ends it."""
        self.in_use = True
        silence, fingerprint = silence_of(self), None
        while True:
            try:
                self.watch_cluster(silence.patience())
                if self.limits.seconds["idle"]:
                    busy, now_seen = idle.activity(self.dashboard)
                    if busy or now_seen != fingerprint:
                        self.limits.restart("idle", time.monotonic())
                    fingerprint = now_seen
                    self.show_deadlines()
                silence.broken()
            except Refused as refused:
                self.log("looking for activity: %s" % refused)
            except Unreachable as error:
                self.limits.restart("idle", time.monotonic())
                silence.goes_on(error)
            self.pause(max(LAZY, min(10.0, self.limits.seconds["idle"] / 5.0 or 3.0)))

    # Waiting.

    def pause(self, seconds):
        """Waits, reads the mail, looks after children and limits. Raises End or AttemptLost."""
        now = time.monotonic()
        due = self.limits.next()
        if due is not None:
            seconds = min(seconds, due - now)
        self.rest(seconds)
        if self.asked is not None:
            raise self.asked
        for number in self.bell.signals:
            raise self.signalled(number)
        name = self.limits.passed(time.monotonic())
        if name:
            reason = "" if self.gang.complete else self.state.doc["reason"]["message"]  # before all nodes were there
            raise limit_end(name, self.limits.seconds[name], reason)

    def rest(self, seconds):
        """Waits and reads the mail, without acting on limits."""
        fds = ([self.driver_fd] if self.driver_fd is not None else []) + self.stdin_fds()
        ready = self.bell.wait(seconds, fds)
        if self.driver_fd is not None and self.driver_fd in ready:
            os.close(self.driver_fd)
            self.driver_fd, self.searches, self.driver_ended = None, 0, time.monotonic()
        self.read_mail(ready)
        for name, code in self.nodes.ended(reap()):
            if not self.stopping:
                self.gang.child_ended(name, code)

    def signalled(self, number):
        """The End that a signal means; the orders may say otherwise than these."""
        name = signal.Signals(number).name[3:]
        cause = (self.orders.get("signals") or {}).get(name) or ("time-limit" if name == "USR1" else "interrupted")
        if cause == "detach":
            return Detached()
        return End(cause, model.SIGNALLED + name)

    def show_deadlines(self):
        """Deadlines as moments of the wall clock."""
        offset = time.time() - time.monotonic()
        due = {name: self.limits.due(name) for name in ("max", "idle", "total")}
        self.state.change(deadlines={name: None if at is None else wall(at + offset) for name, at in due.items()})
