"""The life of a cluster as a list of steps, each done by one of the keeper's objects. One thread runs it; the API's threads only leave letters in the mailbox."""

import time
import traceback

from rayctl_keeper.driver import killed, leftfiles, rankend, rayjob, runtimeenv
from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.http.mail import Mailbox
from rayctl_keeper.node.files import joblogs
from rayctl_keeper.ray.dashboard import Dashboard, Refused, Unreachable
from rayctl_keeper.rayhook import leave
from rayctl_keeper.run import resume
from rayctl_keeper.run.allocations.allocations import Allocations, Main
from rayctl_keeper.run.change import Change
from rayctl_keeper.run.cluster import Cluster
from rayctl_keeper.run.elastic.elastic import Elastic
from rayctl_keeper.run.elastic.joined import Joined
from rayctl_keeper.run.elastic.unmet import Unmet
from rayctl_keeper.run.end.fetch import Fetch
from rayctl_keeper.run.end.finalize import Ending
from rayctl_keeper.run.end.grace import Grace
from rayctl_keeper.run.end.warned import Warned
from rayctl_keeper.run.gang import early
from rayctl_keeper.run.gang.early import Early
from rayctl_keeper.run.gang.gang import Gang
from rayctl_keeper.run.gang.gathering import Gathering
from rayctl_keeper.run.gang.hopeless import Hopeless
from rayctl_keeper.run.gang.placed import Placed
from rayctl_keeper.run.head.head import Head
from rayctl_keeper.run.job.attempts import Attempts
from rayctl_keeper.run.job.driverwatch import REAPED, DriverWatch
from rayctl_keeper.run.job.job import Job
from rayctl_keeper.run.job.outputs import ANSWERS, Outputs
from rayctl_keeper.run.job.packages import Packages
from rayctl_keeper.run.job.prepare import Prepare
from rayctl_keeper.run.job.submitted import Submitted
from rayctl_keeper.run.limits.ends import ends_at
from rayctl_keeper.run.limits.gpus import GpuWatch
from rayctl_keeper.run.limits import idle
from rayctl_keeper.run.limits.limits import Limits
from rayctl_keeper.run.limits.timelimit import TimeLimit
from rayctl_keeper.run.limits.waiting import POLL, TOLD, Waiting
from rayctl_keeper.run.resume import Resumption
from rayctl_keeper.state.exits import AttemptLost, Detached, End, Leaving, driver_end
from rayctl_keeper.state.model import RESTARTS, Cause, Event, JobState, Phase

NOTICED = 25.0  # seconds: Ray's health check fails five times, 3 s apart (health_check_failure_threshold, health_check_period_ms of Ray 2.60)
OUTPUTS, HURRIED = 20.0, 2.0  # seconds for the output of submitted jobs at the end, and at one that is not to wait


class Keeper:
    """Waits for the gang, runs the job, owns the end."""

    def __init__(self, orders, run_dir, nodes, bell, state, log, earlier, node_watch=None):
        """earlier: what a keeper before this one left, see keeper.predecessor. node_watch: see run/end/warned.py."""
        self.orders, self.run_dir, self.nodes, self.state, self.log = orders, run_dir, nodes, state, log
        self.limits = Limits(orders.get("lifetime") or {}, time.monotonic())
        self.mail = Mailbox(run_dir, bell, state, self.limits, log)
        self.driver_log = DriverLog(run_dir, lambda: Dashboard(nodes.dashboard, nodes.token), log)
        self.gang = Gang(orders, nodes, state)
        self.elastic = Joined(orders, self.gang, state) if nodes.external else Elastic(orders, run_dir, nodes, self.gang, state, log)
        self.mail.elastic = self.elastic
        self.mail.change = Change(orders, run_dir, self.limits, self.elastic, nodes.external, state)
        self.gpus = self.mail.gpus = GpuWatch(orders, nodes, self.gang, self.limits, state)
        self.driver = DriverWatch(nodes, state, self.driver_log)
        self.head = Head(orders, nodes, self.gang, self.driver, self.mail, state)
        self.waiting = Waiting(orders, bell, self.mail, nodes, self.gang, self.elastic, self.gpus, self.driver, self.limits, state)
        self.attempts = Attempts(orders, state, self.driver_log)
        self.main = Main(orders, nodes, Allocations(state), state)
        self.cluster = Cluster(nodes, self.gang, self.main, self.elastic, self.limits, self.mail, self.waiting, self.attempts, state)
        self.early = self.waiting.early = self.cluster.early = self.mail.early = Early(orders, nodes, self.gang, self.cluster, self.limits, state)
        self.placement = self.waiting.placed = self.cluster.placed = self.mail.placed = Placed(orders, self.limits, state)
        self.waiting.warned = Warned(orders, node_watch, self.head, state, log)
        self.waiting.hopeless = Hopeless(node_watch, state)
        self.waiting.unmet = self.mail.unmet = Unmet(orders, nodes.external, self.gang, state)
        self.packages = Packages(run_dir, nodes.external, self.limits, self.mail, self.waiting, state)
        self.resumption = Resumption(earlier, run_dir, self.limits, self.driver_log, state, log)
        self.job = Job(run_dir, self.head, self.driver, self.packages, self.resumption, self.mail, self.waiting, state, log)
        self.prepare = Prepare(orders, self.job, self.cluster, self.limits, self.driver, self.driver_log, nodes, self.head, state)
        self.grace = Grace(orders, self.head, self.driver, self.mail, self.waiting, log)
        self.time_limit = TimeLimit(orders, nodes, self.attempts, self.grace, self.limits, self.mail, self.waiting, self.driver, state)
        self.ending = Ending(orders, run_dir, self.limits, self.mail, self.waiting, self.attempts, self.driver_log, state, log)
        self.outputs = Outputs(run_dir, joblogs.bounds_in_memory(orders), lambda: Dashboard(nodes.dashboard, nodes.token), log) if nodes.external else None
        self.submitted = Submitted(orders["name"], run_dir, self.outputs, log)
        self.fetch = self.mail.fetch = Fetch(orders, self.mail, self.waiting, state, log)
        self.gathering = Gathering(nodes, self.head, self.gang, self.main, self.early, self.cluster, self.resumption, self.waiting, state, log)
        self.sharing = None  # set by the process that creates this

    def take_over(self):
        """Goes on where a keeper before this one was lost, if there was one."""
        earlier = self.resumption.earlier
        if self.resumption.resumed:
            self.resumption.carry()
            self.attempts.resume()
            self.placement.resume()
            self.cluster.is_admitted = not resume.waits(earlier, self.nodes.held) or bool(self.state.doc["head"]["session"])
            self.resumption.resume_log()
            if self.state.doc["job"] and self.state.doc["job"]["logBegin"] < 0:
                self.driver.expect(self.state.program(Event.PREPARE)["submissionId"], Event.PREPARE)
        self.resumption.resume_limits(self.placement.awaited, self.nodes.held)
        if earlier.get("committed"):
            self.mail.resume(float(earlier.get("endOnDisconnect") or 0))
        session = (earlier.get("head") or {}).get("session")
        if earlier.get("phase") == Phase.READY and session:
            self.gang.resume(session)
        if self.early.active and self.resumption.resumed:
            self.early.resume()
            if earlier.get("phase") in early.STARTING:
                self.gang.session = session or None
                self.state.change(head=dict(self.state.doc["head"], nodeId=""))  # until it is seen again
        self.mail.leaving = self.resumption.was_leaving()
        if earlier.get("phase") in resume.ENDING:
            self.head.connect()
            self.mail.asked = resume.the_end(earlier)
            self.cluster.in_use = True  # drivers that run get their grace

    def run(self):
        """The whole life; returns when nothing is left."""
        try:
            self.live()
        except Detached:
            self.log("leaves the cluster to the next keeper")
            self.driver_log.leave()
            return
        except End as end:
            self.finish(end)
        except Exception as error:  # a bug must not keep the nodes allocated
            self.log(traceback.format_exc())
            self.finish(End(Cause.LOST, "the keeper failed: %s: %s" % (type(error).__name__, error)))

    def live(self):
        """Raises End."""
        self.admit()
        if self.mail.asked is not None:  # the nodes did not start, or a keeper before this one was ending the cluster
            raise self.mail.asked
        while True:
            try:
                if self.early.active:
                    self.gathering.wait_for_head()
                if not (self.early.active and self.orders.get("job")):  # else see run_job
                    self.gathering.gather()
                self.wait_for_commit()
                if self.orders.get("job"):
                    self.run_job()
                self.keep()
            except Leaving as leaves:
                self.leave(leaves)
                self.cluster.restart(leaves)
            except AttemptLost as lost:
                self.waiting.obey_behind()
                if lost.head_lives:
                    self.stop_driver()
                else:
                    self.driver.collect(reachable=False)
                self.cluster.restart(lost)

    def leave(self, leaves):
        """Head or gang are being taken away: drivers get their grace, and their output is taken over as long as it is there. Then they may go."""
        self.log(str(leaves))
        # A keeper that follows this one must know both: the head may answer for a while, and the driver may run on it.
        head = self.state.doc["head"]
        self.state.change(head=dict(head, leaving=self.gang.session or head["leaving"]))  # told again after a restart: the session is not known yet
        self.state.phase(self.state.doc["phase"], leaves.cause, str(leaves))
        self.state.await_record(TOLD, self.waiting.rest)
        self.waiting.stopping = True  # all nodes start again afterwards: one that ends before is no other end
        draining = self.cluster.in_use and self.grace.stop_drivers(End(leaves.cause, str(leaves), leaves.seconds))
        self.waiting.stopping = False
        self.driver_stopped(draining)

    def stop_driver(self):
        """The attempt is lost, but not the head: the driver gets its grace first, because what it writes until the head ends belongs to its output."""
        self.waiting.stopping = True
        self.grace.stop_own()
        self.waiting.stopping = False
        self.driver_stopped("")

    def driver_stopped(self, draining):
        """Takes the driver's output over. Raises the End of one that has succeeded meanwhile, or that somebody has asked for."""
        program = self.driver.program()
        self.driver.collect(reachable=True)
        self.grace.end_drain(draining)
        if program and self.driver.is_job and program["state"] == JobState.SUCCEEDED:
            raise driver_end(0)  # it was faster
        self.waiting.obey()

    def finish(self, end):
        """Driver, log, nodes, record: in this order, whatever fails."""
        self.ending.begin(end)
        self.elastic.closed = True
        self.ending.try_each((
            self.nodes.close,
            lambda: self.cluster.in_use and self.grace.stop_drivers(end),
            lambda: end.cause != Cause.LOST and self.show_submissions(),
            lambda: end.cause != Cause.LOST and self.take_outputs(),
            lambda: self.driver.collect(reachable=self.head.dashboard is not None),
            lambda: leftfiles.keep(self.state, self.run_dir, self.mail.commit, self.nodes.directories(), (self.orders.get("job") or {}).get("outputDir") or ""),
            lambda: self.fetch.wait(end, self.head.dashboard is not None and self.cluster.in_use),
            lambda: end.cause != Cause.LOST and self.resumption.recover_logs(self.head.dashboard),
            self.elastic.forget,
            self.early.close,
            self.say_ended,
            self.gpus.show,
            self.nodes.stop,
            self.driver.collect_rest,
            self.nodes.release,
            lambda: self.main.released("it ended with its cluster"),
            lambda: self.sharing and self.sharing.catch_up()))
        self.ending.complete(end, client_asks_keeper=self.nodes.external)

    def show_submissions(self):
        """The record of a cluster without a job of its own has what was submitted to it since the last look, and what the end has stopped."""
        if self.cluster.in_use and not self.orders.get("job") and self.head.dashboard:
            jobs = self.head.dashboard.json("GET", "/api/jobs/", 2.0)
            idle.show(self.state, jobs)
            self.submitted.keep(jobs, ends=True)

    def take_outputs(self):
        """What is left to take of the output of submitted jobs, as long as the nodes are there."""
        begun = time.monotonic()

        def until():
            return begun + (HURRIED if self.mail.now else OUTPUTS)

        while self.outputs and not self.outputs.finish(until()) and not self.waiting.signals() and time.monotonic() < until() + ANSWERS:
            self.waiting.rest(POLL)

    def say_ended(self):
        """Pods of a run end at once then, see rayhook/leave.py."""
        if self.nodes.external and self.orders.get("job") and self.head.dashboard:
            self.head.dashboard.request("PUT", leave.ENDED, 2.0, b"-")

    # Steps.

    def admit(self):
        """Limits that count from admission begin; on an external cluster that is when the head first answers."""
        if self.nodes.external:
            self.look_for_packages()
            if resume.waits(self.state.doc, self.nodes.held) and not self.early.queued:
                self.limits.begin("queue", time.monotonic())
                self.state.phase(Phase.QUEUED, "WaitingForHead", "the head has no address yet")
                self.main.queued()
            return
        if self.nodes.queued and self.mail.asked is None:
            self.cluster.wait_for_slot()
        self.cluster.admitted()
        self.early.admitted()
        self.state.phase(Phase.STARTING, "WaitingForHead", "Ray is starting")

    def look_for_packages(self):
        """While a client may still watch, perhaps hours before they are needed: those that were lost with the keeper before this one."""
        doc = self.state.doc
        if self.resumption.resumed and doc["committed"] and doc["job"] and not self.job.submitted(doc["attempt"]):
            self.mail.look_for_commit()
            self.packages.show_missing([p["file"] for p in self.mail.packages()])

    def wait_for_commit(self):
        """Until the client is done with its part."""
        while not self.state.doc["committed"]:
            self.mail.look_for_commit()
            if not self.state.doc["committed"] and self.nodes.external and self.orders.get("job"):
                self.adopt()
            self.waiting.pause(0 if self.state.doc["committed"] else POLL)

    def adopt(self):
        """For a keeper after another one, without a commit document: a job that is on the head was committed. The document is still accepted when it comes."""
        driver_id = rayjob.driver_id(self.orders, self.state.doc["attempt"])
        for submission_id in (driver_id, rayjob.prepare_id(driver_id)):
            if rayjob.dashboard_has(self.head.dashboard, submission_id):
                self.log("job %s already exists" % submission_id)
                self.mail.committed()
                return

    def run_job(self):
        """Submits the driver and follows it; again if it may be restarted. Raises End."""
        while True:
            number, commit, reason = self.state.doc["attempt"], self.mail.commit or {}, self.attempts.reason
            submission_id = rayjob.driver_id(self.orders, number)
            if self.state.doc["job"]["submissionId"] != submission_id:
                self.state.change(job=self.state.new_job(submission_id, rayjob.driver_command(self.orders), rayjob.prepare_command(self.orders)))
            try:
                self.prepare.run(submission_id, commit, reason)
                if not self.gang.complete and self.orders["job"].get("start") != "head":
                    self.gathering.gather()
            except End as limit:
                self.time_limit.next_attempt(limit)
                continue
            self.nodes.confirm()
            self.driver.expect(submission_id)
            submitted = self.job.submit(rayjob.submission(self.orders, commit, number, reason, ends_at(self.limits, self.orders["start"])))
            self.cluster.used()
            try:
                info = self.job.follow(submission_id, submitted)
                end = killed.tell(rayjob.outcome(info), info, self.nodes.directories(), self.head.dashboard)
            except End as limit:
                self.time_limit.next_attempt(limit)
                continue
            if end.cause == Cause.SUBMIT_FAILED:
                end = runtimeenv.explain(end, info, self.nodes.directories(), self.head.dashboard, self.driver_log, self.state.doc["job"]["logFile"])
            if end.driver is not None and end.driver[0] != 0:
                self.early.confirm(self.waiting.rest)
            self.driver.await_end(REAPED)
            self.driver.collect(reachable=True)
            rankend.tell(self.orders["job"], end, self.driver_log)
            self.blame_lost_node(end)
            if end.driver is None or end.driver[0] == 0 or not self.attempts.left("driver"):
                raise end
            self.attempts.use("driver")
            self.attempts.next(Cause.DRIVER_FAILED, end.message, end.driver[0])

    def blame_lost_node(self, end):
        """A driver that fails because one of its nodes was lost has not failed by itself. Raises AttemptLost where job.restarts has an attempt for that."""
        if end.driver is None or end.driver[0] == 0 or rayjob.has_ranks(self.orders["job"]):
            return
        # A driver sees that its actors have died long before Ray counts their node as lost.
        until = time.monotonic() + (NOTICED if self.attempts.left("nodeFailure") else 0.0)
        lost = self.look_for_loss()
        while not lost and time.monotonic() < until and self.mail.asked is None:
            self.waiting.rest(1.0)
            lost = self.look_for_loss()
        if lost:
            sentence, cause = lost
            end.message += ", after " + sentence
            if self.attempts.left(RESTARTS[cause]):
                raise AttemptLost(end.message, cause)

    def look_for_loss(self):
        """The node that was lost lately, after a look at Ray's nodes, if Ray answers."""
        try:
            self.head.look_at_nodes(ANSWERS)
        except (Refused, Unreachable) as error:
            self.log("looking for lost nodes: %s" % error)
        return self.gang.lost_lately()

    def keep(self):
        """A cluster without a job: until somebody or a limit ends it."""
        self.cluster.in_use = True
        silence, watch = self.head.silence(), idle.IdleWatch(self.limits, self.state, self.submitted)
        while True:
            try:
                self.head.look(silence.patience())
                watch.look(self.head.dashboard)
                silence.broken()
            except Refused as refused:
                self.log("looking for activity: %s" % refused)
            except Unreachable as error:
                self.limits.restart("idle", time.monotonic())
                silence.goes_on(error)
            self.waiting.pause(watch.pace())
