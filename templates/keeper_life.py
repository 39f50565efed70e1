"""The life of a cluster as a list of steps. One thread runs it; the API's threads only leave letters in its mailbox."""

import os
import signal
import time

import keeper_exit
import keeper_idle
import keeper_job
import keeper_ray
from keeper_exit import AttemptLost, Detached, End
from keeper_limits import Limits
from keeper_log import DriverLog
from keeper_mail import Mailbox
from keeper_process import pidfd_open, reap
from keeper_state import RESERVE, new_job, wall

POLL = 0.15  # seconds between questions while something is awaited
LAZY = 1.0  # while nothing is expected, or the driver's process tells of its end by itself
LOST_AFTER = 30.0  # seconds without an answer of a head whose process we do not see
PORT_TROUBLE = ("already occupied", "already running at", "Address already in use", "Failed to bind", "errno: 98", "Errno 98")


class Keeper(Mailbox):
    """Waits for the gang, runs the job, owns the end."""

    def __init__(self, orders, run_dir, token, nodes, bell, state, log):
        super().__init__(run_dir, bell, state)
        self.orders, self.token, self.nodes, self.log = orders, token, nodes, log
        self.limits = Limits(orders.get("lifetime") or {}, time.monotonic())
        self.dashboard = None
        self.driver_log = DriverLog(run_dir, lambda: keeper_ray.Dashboard(nodes.dashboard, token), log)
        self.used = {"driver": 0, "nodeFailure": 0}
        self.stopping = self.was_ready = self.driver_gone = False
        self.reason = orders.get("restartReason", "")
        self.body = self.driver_fd = None
        self.dead = {}  # node name -> message of its supervisor

    def run(self):
        """The whole life; returns when nothing is left."""
        try:
            self.live()
        except Detached:
            self.log("leaves the cluster to the next keeper")
            return
        except End as end:
            self.end = end
        except Exception as error:  # a bug must not keep the nodes allocated
            import traceback
            self.log(traceback.format_exc())
            self.end = End("lost", "the keeper failed: %s: %s" % (type(error).__name__, error))
        self.finish(self.end)

    def live(self):
        """Raises End."""
        self.admit()
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
            self.limits.begin("queue", time.monotonic())
            self.state.phase("Provisioning", "WaitingForHead", "the head does not answer yet")
            return
        self.admitted()
        self.state.phase("Starting", "WaitingForHead", "Ray is starting")

    def admitted(self):
        """The nodes are ours."""
        now = time.monotonic()
        self.limits.stop("queue")
        for name in ("max", "total", "start"):
            self.limits.begin(name, now)
        self.show_deadlines()

    def wait_for_gang(self):
        """Until all nodes of the gang are ALIVE in Ray."""
        self.dashboard = self.mail_aborts = keeper_ray.Dashboard(self.nodes.dashboard, self.token)
        self.instance = None
        while True:
            try:
                if self.instance is None:
                    self.greet(self.dashboard.version())
                if self.count_nodes(self.dashboard.state("nodes", 2.0)):
                    break
            except keeper_ray.Unreachable:
                pass
            except keeper_ray.Refused as refused:
                if refused.status in (401, 403):
                    raise End("start-failed", "the head's dashboard refuses the cluster's token: %s" % refused)
            self.pause(POLL)
        self.limits.stop("start")
        self.was_ready = True
        self.state.phase("Ready")

    def greet(self, answer):
        """The head's first answer."""
        version, wanted = answer.get("ray_version", ""), self.orders["ray"].get("version")
        if wanted and version != wanted:
            raise End("start-failed", "the cluster has Ray %s, but ray.version asks for %s" % (version, wanted), retryable=False)
        self.instance = answer.get("session_name") or ""
        head = dict(self.state.doc["head"], address=self.nodes.gcs, dashboard=self.nodes.dashboard,
                    clientPort=self.nodes.client_port, session=self.instance, rayVersion=version,
                    token=keeper_ray.version_tuple(version) >= (2, 52))
        self.state.change(head=head)
        if self.nodes.external:
            self.admitted()
            self.state.phase("Starting", "WaitingForNodes", "the head answers")

    def count_nodes(self, rows):
        """Takes over Ray's view of the nodes; returns whether the gang is complete."""
        alive = [r for r in rows if r["state"] == "ALIVE"]
        nodes, ready = self.match(rows)
        groups = [{"name": g["name"], "ready": min(ready.get(g["name"], 0), g["count"]), "wanted": g["count"], "gpus": g.get("gpus") or 0}
                  for g in self.orders["groups"]]
        head = next((r["node_id"] for r in alive if r.get("is_head_node")), self.state.doc["head"]["nodeId"])
        self.state.change(nodes=nodes, groups=groups, head=dict(self.state.doc["head"], nodeId=head))
        have, wanted = sum(g["ready"] for g in groups), sum(g["wanted"] for g in groups)
        if have < wanted and self.instance is not None and not self.was_ready:
            self.state.phase(self.state.doc["phase"], "WaitingForNodes", "%d of %d nodes are alive" % (have, wanted))
        return have >= wanted

    def match(self, rows):
        """([node of the state document], {group: alive}): by the names we gave, or by the groups KubeRay labels."""
        nodes, ready = [], {}
        if self.nodes.external:
            for row in rows:
                labels = row.get("labels") or {}
                head, groups = row.get("is_head_node"), self.orders["groups"]
                group = labels.get("rayctl.io/group") or labels.get("ray.io/node-group") or ""
                if group not in [g["name"] for g in groups]:
                    group = groups[0]["name"] if head or len(groups) == 1 else groups[1]["name"]
                ready[group] = ready.get(group, 0) + (row["state"] == "ALIVE")
                nodes.append({"name": row.get("node_name") or row["node_id"][:8], "group": group, "pid": 0, "nodeId": row["node_id"],
                              "state": row["state"], "host": row.get("node_ip") or "", "message": row.get("state_message") or ""})
            return nodes, ready
        for member in self.nodes.members:
            mine = [r for r in rows if r.get("node_name") == member.name]
            row = next((r for r in mine if r["state"] == "ALIVE"), mine[-1] if mine else {})
            report = self.nodes.report(member)
            state = row.get("state", "STARTING")
            message = self.dead.get(member.name) or row.get("state_message") or report.get("message", "")
            if member.name in self.dead:
                state = "DEAD"
            elif state == "DEAD" and report.get("state") in ("starting", "retrying"):
                state = "STARTING"
            group = member.group["name"]
            ready[group] = ready.get(group, 0) + (state == "ALIVE")
            nodes.append({"name": member.name, "group": group, "pid": self.nodes.pid_of(member) or report.get("pid", 0),
                          "nodeId": row.get("node_id", ""), "state": state, "host": report.get("host", ""), "message": message})
        return nodes, ready

    def wait_for_commit(self):
        """Until the client is done with its part."""
        while not self.state.doc["committed"]:
            self.look_for_commit()
            if self.nodes.external and self.orders.get("job"):
                self.adopt()
            self.pause(0 if self.state.doc["committed"] else POLL)

    def adopt(self):
        """A keeper that takes over from one that was evicted finds the job on the head: it was committed."""
        submission_id = "%s-%d" % (self.orders["job"]["submissionPrefix"], self.state.doc["attempt"])
        if keeper_job.dashboard_has(self.dashboard, submission_id):
            self.log("job %s is there already" % submission_id)
            self.take_commit({})

    def run_job(self):
        """Submits the driver and follows it; again if it may be restarted. Raises End."""
        while True:
            number = self.state.doc["attempt"]
            self.body = keeper_job.submission(self.orders, self.commit, number, self.reason)
            submission_id = self.body["submission_id"]
            self.state.change(job=new_job(submission_id, entrypoint=self.body["entrypoint"]))
            self.driver_gone = False
            try:
                if not keeper_job.dashboard_has(self.dashboard, submission_id):
                    keeper_job.upload(self.dashboard, self.run_dir, self.commit.get("packages") or [])
                    keeper_job.submit(self.dashboard, self.body, self.pause)
            except keeper_ray.Unreachable as error:
                raise AttemptLost("the head was lost before the job was submitted: %s" % error)
            end = keeper_job.outcome(self.follow(submission_id))
            self.collect(reachable=True)
            limit = (self.orders["job"].get("restarts") or {}).get("driver", 0)
            if end.driver is None or end.driver[0] == 0 or (limit >= 0 and self.used["driver"] >= limit):
                raise end
            self.used["driver"] += 1
            self.next_attempt("driver-failed", end.message, end.driver[0])

    def follow(self, submission_id):
        """Until Ray says that the driver has ended; returns its record."""
        silent_since, seen = None, False
        while True:
            try:
                info = self.dashboard.job(submission_id)
                silent_since = None
                if info is None:
                    if seen:
                        raise AttemptLost("the head was restarted and does not know the job any more")
                else:
                    seen = True
                    self.take(info)
                    if info["status"] in keeper_job.TERMINAL:
                        return info
                self.watch_cluster()
            except keeper_ray.Refused as refused:
                self.log("asking for the job: %s" % refused)
            except keeper_ray.Unreachable as error:
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > LOST_AFTER:
                    raise AttemptLost("the head does not answer any more: %s" % error)
            self.driver_log.pump()
            self.pause(LAZY if self.driver_fd is not None and silent_since is None else POLL)

    def take(self, info):
        """Ray's record of the job; the driver's process and log, once it runs."""
        fields = keeper_job.fields(info)
        running = fields["state"] == "RUNNING" and fields["driverNodeId"]
        if running and self.driver_fd is None and not self.driver_gone and not self.nodes.external:
            pid = keeper_job.find_driver(self.body["submission_id"], self.nodes.directories())
            if pid:
                self.driver_fd = pidfd_open(pid)
                fields["driverPid"] = pid
        self.state.job(**fields)
        if fields["driverNodeId"]:
            self.driver_log.begin(self.state.doc["job"]["logFile"], fields["driverNodeId"], self.nodes.directories(), stream=bool(running))

    def watch_cluster(self):
        """Now and then: is it still the same head, which nodes are there."""
        now = time.monotonic()
        if now < getattr(self, "next_look", 0):
            return
        self.next_look = now + 3.0
        session = self.dashboard.version(2.0).get("session_name") or ""
        if session != self.instance:
            raise AttemptLost("the head was restarted (session %s became %s)" % (self.instance, session))
        before = {n["name"]: n["state"] for n in self.state.doc["nodes"]}
        self.count_nodes(self.dashboard.state("nodes", 2.0))
        for node in self.state.doc["nodes"]:
            if before.get(node["name"], "ALIVE") != node["state"] and not self.stopping:
                self.state.note("node", node["state"], node["name"], node["message"])

    def keep(self):
        """A cluster without a job: until somebody or a limit ends it."""
        silent_since = fingerprint = None
        while True:
            try:
                self.watch_cluster()
                if self.limits.seconds["idle"]:
                    busy, now_seen = keeper_idle.activity(self.dashboard)
                    if busy or now_seen != fingerprint:
                        self.limits.restart("idle", time.monotonic())
                    fingerprint = now_seen
                    self.show_deadlines()
                silent_since = None
            except keeper_ray.Refused as refused:
                self.log("looking for activity: %s" % refused)
            except keeper_ray.Unreachable as error:
                self.limits.restart("idle", time.monotonic())
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > LOST_AFTER:
                    raise AttemptLost("the head does not answer any more: %s" % error)
            self.pause(max(LAZY, min(10.0, self.limits.seconds["idle"] / 5.0 or 3.0)))

    def restart_cluster(self, lost):
        """The cluster broke: starts it again if the orders allow it, else ends."""
        self.collect(reachable=False)
        if not self.was_ready:
            self.fail_start(str(lost))
        limit = ((self.orders.get("job") or {}).get("restarts") or {}).get("nodeFailure", 0)
        if limit >= 0 and self.used["nodeFailure"] >= limit:
            raise End("lost", str(lost))
        self.used["nodeFailure"] += 1
        self.state.phase("Lost", "NodeFailure", str(lost))
        self.next_attempt("lost", str(lost), None)
        self.start_again()

    def fail_start(self, message):
        """A start that failed; ports taken by somebody in the last moment are worth another try."""
        if any(t in message for t in PORT_TROUBLE) and self.nodes.round < 2 and not self.nodes.external:
            self.state.note("restart", "Starting", "PortTaken", message)
            self.start_again()
            return
        raise End("start-failed", message)

    def start_again(self):
        """All nodes anew."""
        self.stopping = True
        self.nodes.stop(self.bell)
        self.stopping = self.was_ready = False
        self.dead.clear()
        self.instance = self.driver_fd = None
        self.nodes.start()
        self.limits.stop("start")
        self.limits.begin("start", time.monotonic())
        self.state.change(nodes=[], head=dict(self.state.doc["head"], session="", nodeId=""))
        self.state.phase("Starting", "WaitingForHead", "Ray is starting")

    def next_attempt(self, cause, message, code):
        """Records the attempt that ended and counts on."""
        self.record_attempt(cause, message, code)
        if self.orders.get("job"):
            self.reason = cause
            self.state.note("restart", "attempt %d" % (self.state.doc["attempt"] + 1), cause, message)
        self.state.change(attempt=self.state.doc["attempt"] + 1)

    def record_attempt(self, cause, message, code):
        """Adds to `attempts`."""
        job = self.state.doc["job"] or {}
        self.state.change(attempts=self.state.doc["attempts"] + [{
            "attempt": self.state.doc["attempt"], "submissionId": job.get("submissionId", ""), "start": job.get("startTime"),
            "end": job.get("endTime") or wall(), "cause": cause, "exitCode": code, "message": message}])

    # The end.

    def finish(self, end):
        """Driver, log, nodes, record: in this order, whatever fails."""
        self.stopping = True
        self.log("end %s: %s" % (end.cause, end.message))
        self.state.phase("Draining", end.cause, end.message)
        for step in (lambda: self.stop_driver(end), lambda: self.collect(reachable=True), lambda: self.nodes.stop(self.bell)):
            try:
                step()
            except Exception as error:
                self.log("at the end: %s: %s" % (type(error).__name__, error))
        self.driver_log.close()
        self.record(end)

    def stop_driver(self, end):
        """Gives a running driver its grace."""
        job = self.state.doc["job"]
        if not job or job["state"] not in ("PENDING", "RUNNING") or end.driver is not None or end.cause == "lost":
            return
        grace = float(self.orders["job"].get("grace") or 0)
        if end.grace is not None:
            grace = min(grace, end.grace)
        if self.now or grace <= 0:
            return
        try:
            self.dashboard.stop(job["submissionId"])
            until = time.monotonic() + grace + 1.0  # Ray kills after its own count of the same seconds
            while not self.now and time.monotonic() < until:
                info = self.dashboard.job(job["submissionId"])
                if info is None:
                    return
                self.take(info)
                if info["status"] in keeper_job.TERMINAL:
                    return
                self.driver_log.pump()
                self.rest(POLL)
        except (keeper_ray.Unreachable, keeper_ray.Refused) as error:
            self.log("stopping the driver: %s" % error)

    def collect(self, reachable):
        """Saves the driver's log as far as it goes."""
        self.driver_log.finish(reachable and self.dashboard is not None)
        if self.driver_fd is not None:
            os.close(self.driver_fd)
            self.driver_fd = None

    def record(self, end):
        """Writes result.json and removes what must not stay. The reserve makes room for it on a full disk."""
        for name in os.listdir(self.run_dir):
            if name in ("token", "secrets.json", RESERVE) or name.startswith("package-"):
                os.unlink(os.path.join(self.run_dir, name))
        if self.state.doc["job"] is not None:
            self.record_attempt(end.cause, end.message, self.state.doc["job"]["exitCode"])
        self.state.final(os.path.join(self.run_dir, "result.json"), end.document(), self.driver_log.document())

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
            reason = self.state.doc["reason"]["message"] if name == "start" else ""
            raise keeper_exit.limit_end(name, self.limits.seconds[name], reason)

    def rest(self, seconds):
        """Waits and reads the mail, without acting on limits."""
        fds = ([self.driver_fd] if self.driver_fd is not None else []) + self.stdin_fds()
        ready = self.bell.wait(seconds, fds)
        if self.driver_fd is not None and self.driver_fd in ready:
            os.close(self.driver_fd)  # the driver has ended: Ray is asked at the quick pace again
            self.driver_fd, self.driver_gone = None, True
        self.read_mail(ready)
        for name, code in self.nodes.ended(reap()):
            if not self.stopping:
                self.child_ended(name, code)

    def signalled(self, number):
        """The End that a signal means; the orders may say otherwise than these."""
        name = signal.Signals(number).name[3:]
        cause = (self.orders.get("signals") or {}).get(name) or ("time-limit" if name == "USR1" else "interrupted")
        if cause == "detach":
            return Detached()
        return End(cause, "the keeper got SIG%s" % name)

    def child_ended(self, name, code):
        """A supervisor or the step ended without being asked."""
        member = next((m for m in self.nodes.members if m.name == name), None)
        message = (self.nodes.report(member).get("message") if member else self.step_message()) or \
            ("the supervisor of node %s was killed by signal %d" % (name, -code) if code < 0 else
             "%s ended with code %d" % ("the step" if member is None else "the supervisor of node " + name, code))
        self.dead[name] = message
        self.state.note("node", "DEAD", name, message)
        if not self.was_ready or member is None or member.head:
            raise AttemptLost(message)

    def step_message(self):
        """What failed supervisors of a step reported, the first of them."""
        reports = [self.nodes.report(m) for m in self.nodes.members]
        return next((r["message"] for r in reports if r.get("state") == "failed"), "")

    def show_deadlines(self):
        """Deadlines as moments of the wall clock."""
        offset = time.time() - time.monotonic()
        due = {name: self.limits.due(name) for name in ("max", "idle", "total")}
        self.state.change(deadlines={name: None if at is None else wall(at + offset) for name, at in due.items()})
