"""One life of a cluster in a Slurm job: its batch scripts and keepers, one after the other, or two at once where Slurm has lost a host that lives; and what goes wrong."""

import json
import os

from rayctl_keeper.slurm.attempts.account import SEED
from rayctl_keeper.slurm.attempts.after import load, output_of, salvage
from rayctl_keeper.slurm.attempts.tenure import FILE
from rayctl_keeper.state.conclude import Verdict, conclude
from rayctl_keeper.state.document import DRAIN, wall
from rayctl_keeper.state.model import SIGNALLED, Cause
from sim.life import Life
from sim.slurm import Slurm
from sim.step import Batch
from sim.world import EPOCH, LONGEST, Process, Violation

AFTER = 150.0  # virtual seconds within which nothing is left of a cluster whose job is over
GONE = 60.0  # seconds after which a head that has ended is taken for lost, where its host refuses connections (run/head/silence.py) and nobody else lives
STATUS, SEEN = 4.0, 45.0  # seconds between looks at the status; in which Ray's health check and the keeper's look have shown that a node is gone
FINALS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL")
SLACK = 60.0  # slurm/script/script.go, EndSlack
# What a client finds for a job that ended without a result (slurm/verdict.go, verdictByState).
VERDICTS = {"CANCELLED": Cause.INTERRUPTED, "TIMEOUT": Cause.TIME_LIMIT, "PREEMPTED": Cause.PREEMPTED}


class SlurmLife(Life):
    """top is the run's directory, which has one for each attempt."""

    def __init__(self, seed, root, without=()):
        super().__init__(seed, root, without)
        self.top = os.path.join(self.dir, "run")
        self.batches, self.left_behind, self.supervisors, self.sruns = [], [], [], {}
        self.written = {}  # the last document of each file: path -> (moment, revision)
        self.by_keeper = True  # the last result was written by a keeper
        self.companions_limit, self.told_to_end = None, False
        self.slurm, self.job = Slurm(self), None

    def _orders(self):
        orders = super()._orders()
        orders["launcher"], orders["start"] = "slurm", {"mode": "step", "argv": ["srun"], "command": ["node", "--slurm"], "warning": float((orders["job"] or orders)["grace"]) + SLACK}
        return orders

    # Where the run is.

    @property
    def run_dir(self):
        return os.path.join(self.top, load(os.path.join(self.top, "current")).get("attempt") or "1")

    def _file(self, name, text):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.utime(path, (EPOCH + self.world.now,) * 2)

    def _prepare(self):
        for name, text in (("record.json", '{"nonce": "nonce"}'), ("1/orders.json", json.dumps(self.orders)), ("1/token", "token"), ("1/secrets.json", "{}"), ("1/.reserve", "x")):
            self._file(name, text)

    def _commit(self):
        self.world.say("the client commits")
        self._file("1/commit", "{}")
        self.committed = True
        for bell in self.bells():
            bell.ring()

    # The keepers' world.

    def bells(self):
        return [b.process.bell for b in self.batches if isinstance(b, Batch) and b.process.bell is not None and not b.process.killed]

    def keeper_begins(self, process):
        others = [b.host.name for b in self.batches if isinstance(b, Batch) and b.process is not process and b.process.nodes is not None and not b.process.killed
                  and os.path.exists(os.path.join(b.process.nodes.run_dir, FILE))]
        if others:
            raise Violation("a keeper begins on %s while another one of the run lives on %s" % (process.host.name, others))
        self.process = process
        for name in self.batch_of(process).waiting:
            self.world.after(0.0, self.batch_of(process).signal, name)
        if self.kills_at_writes and self.world.chance(0.7):
            process.kill_at_write = (self.world.random.randint(1, 60), self.world.chance(0.5))

    def keeper_is_gone(self, process):
        if self.process is process:
            self.process = None

    def kill(self, process):
        batch = next((b for b in self.batches if isinstance(b, Batch) and b.process is process), None)
        if batch is not None and not process.killed:
            batch.keeper_killed()

    def exited(self, process, code):
        batch = self.batch_of(process)
        self.keeper_is_gone(process)
        self.world.after(0.05, batch.ended, code)

    def job_of(self, process):
        return self.batch_of(process).job

    def batch_of(self, process):
        return next(b for b in self.batches if isinstance(b, Batch) and b.process is process)

    def step_head(self, nodes, number):
        """The head of a round of a keeper's own step."""
        return next((h for h in reversed(list(self.heads.values())) if h.supervisor.step.nodes is nodes and h.supervisor.round == number), None)

    def head_died(self, head):
        for supervisor in self.supervisors:
            if supervisor.alive:
                supervisor.head_gone(head)

    def cut(self, host):
        """Head and nodes that do not reach each other any more."""
        for supervisor in self.supervisors:
            head = supervisor.joined
            if supervisor.alive and head is not None and head.host is not supervisor.host and host in (head.host, supervisor.host):
                self.world.after(self.world.between(5.0, 15.0), self._cut_off, supervisor, head)

    def _cut_off(self, supervisor, head):
        if supervisor.alive and supervisor.joined is head and (supervisor.host.cut or head.host.cut):
            head.lose(supervisor.member.name)
            supervisor.head_gone(head)

    def find_driver(self, submission_id, directories):
        return next((1000 + i for i, d in enumerate(self.drivers) if d.submission_id == submission_id and d.alive and d.head.directory in directories), 0)

    def workers(self):
        return sum(g["count"] for g in self.orders["groups"]) - 1

    def job_is_over(self, job):
        if job is self.job:
            self.world.wake(self.world.main)

    def _letter(self, what, body):
        process = self.process
        if process is not None and process.keeper is not None and not process.killed and self.slurm.reaches(process.host):
            super()._letter(what, body)

    def wrote(self, path):
        if not path.endswith(("state.json", "result.json")):
            return
        with open(path) as f:
            doc = json.load(f)
        _, before = self.written.get(path, (0.0, -1))
        if doc["revision"] < before and not self.full:
            raise Violation("revision %d follows %d in %s" % (doc["revision"], before, path))
        self.written[path] = (self.world.now, doc["revision"])
        if doc["phase"] == "Draining" and self.ends_at is None:
            self.ends_at = self.world.now
        if path.endswith("result.json"):
            self.by_keeper, self.results = self.world.current.process.keeper is not None, self.results + 1
            self.ends_at = None
            running = [d.submission_id for d in self.drivers if d.alive and DRAIN not in d.submission_id]
            if running:
                raise Violation("the result is written while %s runs" % running)

    def driver_begins(self, driver, head):
        results, self.results = self.results, 0  # an attempt's result is not the run's
        super().driver_begins(driver, head)
        self.results = results

    def end_orphans(self):
        """killed.end_orphans: srun, whose keeper was killed, gets SIGUSR1 from the batch script."""
        batch = next(b for b in self.batches if isinstance(b, Batch) and b.concludes is self.world.current.process)
        sruns, until = [s for s in self.sruns.values() if s.process is batch.process and s.alive], self.world.now + 30.0
        for srun in sruns:
            srun.signal(None)
        while any(s.alive for s in sruns) and self.world.now < until:
            self.world.spend(0.04)

    # What goes wrong.

    def _plan_commit(self):
        if self.world.chance(0.95):
            self._commit()
        elif self.world.chance(0.8):
            self.world.after(self.world.between(0.0, 60.0), self._commit)

    def _kinds(self):
        return [self._end, self._extend, self._renewals, self._mute, self._mute, self._full, self._clock, self._signal, self._lossy, self._lossy, self._scancel,
                self._kill, self._kill, self._kill_batch, self._lose_node, self._lose_node, self._lose_head_node, self._ray_ends, self._ray_ends, self._srun_killed,
                self._power, self._power, self._power_head, self._power_head, self._cut, self._cut, self._cut, self._cut_worker,
                self._requeue, self._requeue, self._preempt, self._preempt, self._away, self._away]

    def _running(self):
        return self.job.state == "RUNNING" and self.job.batch

    def _asks_for_end(self, cause):
        self.asked.append((self.world.now, cause))

    def _clock(self):
        seconds, host = self.world.random.choice([-3600.0, -5.0, 5.0, 3600.0]), self.world.random.choice(self.slurm.hosts)
        if self.world.chance(0.5) and self._running():
            host = self.job.head
        self.world.fault("the wall clock of %s jumps by %d s" % (host.name, seconds))
        host.jump += seconds

    def _signal(self):
        if self._running():
            name = self.world.random.choice(["TERM", "USR1"])
            self._asks_for_end("interrupted")
            self.world.fault("somebody sends SIG%s to the batch script" % name)
            self.job.batch.signal(name)

    def _scancel(self):
        if self.world.chance(0.5):
            self._asks_for_end("interrupted")
            self.world.fault("somebody cancels the job")
            self.slurm.cancel(self.job)

    def _kill_batch(self):
        if self._running() and self.slurm.reaches(self.job.head):
            self.world.fault("keeper and batch script are killed")
            self.job.batch.signal("KILL")

    def _some(self, *, head):
        return [s for s in self.supervisors if s.alive and s.member.head == head]

    def _lose_node(self):
        for supervisor in self._some(head=False)[:1]:
            self.world.fault("the supervisor of %s is killed" % supervisor.member.name)
            supervisor.signal("KILL")

    def _lose_head_node(self):
        for supervisor in self._some(head=True)[:1]:
            self.world.fault("the supervisor of %s is killed" % supervisor.member.name)
            supervisor.signal("KILL")

    def _ray_ends(self):
        there = self._some(head=False) + self._some(head=True)
        if there:
            supervisor = self.world.random.choice(there)
            self.world.fault("Ray ends on %s" % supervisor.member.name)
            supervisor.ray_ends("Ray ended")

    def _srun_killed(self):
        srun = next((s for s in self.sruns.values() if s.alive and not s.process.killed), None)
        if srun and self.world.chance(0.5):
            self.world.fault("srun is killed")
            srun.end(-9)

    def _power(self):
        if self._running() and len(self.job.hosts) > 1:
            self.slurm.power_off(self.world.random.choice(self.job.hosts[1:]))

    def _power_head(self):
        if self._running():
            self.slurm.power_off(self.job.head)

    def _cut(self):
        if self._running() and self.slurm.reaches(self.job.head):
            self.slurm.cut(self.job.head, self.world.between(5.0, 200.0), self.world.chance(0.6))

    def _cut_worker(self):
        if self._running() and len(self.job.hosts) > 1:
            host = self.world.random.choice(self.job.hosts[1:])
            if self.slurm.reaches(host):
                self.slurm.cut(host, self.world.between(5.0, 100.0), self.world.chance(0.5))

    def _requeue(self):
        if self._running():
            self.world.fault("somebody requeues the job")
            self._asks_for_end("interrupted")
            self.slurm.requeue(self.job)

    def _preempt(self):
        self._asks_for_end("interrupted")
        self.slurm.preempt(self.job)

    def _away(self):
        seconds = self.world.between(2.0, 100.0)
        self.world.fault("Slurm's controller is away for %.0f s" % seconds)
        self.slurm.away_until = self.world.now + seconds

    def may_have_lost(self, written, have):
        """Of an attempt that has ended before the last one."""
        return written.startswith(have) and self.killings_or_losses()

    def killings_or_losses(self):
        return any("a client ends" not in text for _, text in self.world.faults)

    # The life.

    def _check_status(self):
        """What the keeper's document says is so, when it had the time to see it."""
        process = self.process
        if self.job.ended is None:
            self.world.after(STATUS, self._check_status)
        if process is None or process.keeper is None or process.killed or process.host.hangs:
            return
        doc, now = process.state.doc, self.world.now
        head = self.step_head(process.nodes, process.nodes.round)
        if head is not None and head.died and now > head.died + GONE and doc["phase"] == "Ready" and doc["head"]["session"] == head.session:
            raise Violation("the status is Ready %d s after the end of the head" % (now - head.died))
        ready = doc["phase"] == "Ready" and head is not None and head.alive and not self.mutes and not self.loss_ever
        if ready and doc["head"]["session"] != head.session:
            raise Violation("the status has the head %s, which is %s" % (doc["head"]["session"], head.session))
        dead = {s.member.name for s in self.supervisors if s.step.nodes is process.nodes and s.round == process.nodes.round and not s.alive and s.gone and now > s.gone + SEEN}
        shown = [n["name"] for n in doc["nodes"] if n["state"] == "ALIVE" and n["name"] in dead] if ready else []
        if shown:
            raise Violation("the status has %s as alive, whose supervisors have ended" % shown)
        for allocation in doc["allocations"]:
            if (allocation["state"] == "released") != bool(allocation["released"]) or allocation["state"] == "granted" and (not allocation["granted"] or allocation.get("expected")):
                raise Violation("an allocation is %s" % allocation)
        if len({a["purpose"] for a in doc["allocations"] if not a["released"] and a["purpose"] != "elastic"}) < len([a for a in doc["allocations"] if not a["released"] and a["purpose"] != "elastic"]):
            raise Violation("allocations that are open at once: %s" % doc["allocations"])

    def _keepers(self):
        orders, random = self.orders, self.world.random
        restarts = (orders["job"] or {}).get("restarts") or {}
        self.job = self.slurm.submit("n", 1 + self.workers(), lambda job: Batch(self.slurm, job))
        self.job.output, self.job.warning = os.path.join(self.top, "slurm.out"), orders["start"]["warning"]
        self.job.requeues = any(restarts.get(kind) for kind in ("preempted", "nodeFailure", "timeLimit"))
        limit = orders["lifetime"]["max"]
        self.job.limit = 60.0 * (1 + (limit + self.job.warning) // 60) if limit else random.choice([None, None, 240.0, 600.0])
        self.world.after(STATUS, self._check_status)
        while self.job.state not in FINALS:
            self.world.block(self.world.now + LONGEST)
        while any(host.cut for host in self.slurm.hosts):
            self.world.run_on(5.0)
        self.world.run_on(AFTER)
        self._check_left()
        self._client_concludes()
        self._ended()

    def _check_left(self):
        """Of a cluster whose job is over."""
        processes = [b.host.name for b in self.batches if b.alive]
        if processes:
            raise Violation("its job is over, and batch scripts live on %s" % processes)
        left = [s.member.name for s in self.supervisors if s.alive]
        if left:
            raise Violation("its job is over, and %s live on" % left)
        directories = [s.directory for s in self.supervisors if s.directory]
        if directories:
            raise Violation("node directories are left: %s" % directories)

    def _client_concludes(self):
        """What any rayctl command does that looks at a run whose job is over (slurm/conclude.go), by the same rules."""
        place, cause = self.run_dir, VERDICTS.get(self.job.state, Cause.LOST)
        path = os.path.join(place, "result.json")
        self.by_client = not os.path.exists(path)
        if self.by_client:
            state, log = load(os.path.join(place, "state.json")) or {"attempt": 1}, salvage(output_of(place))
            doc = dict(conclude(state, Verdict(cause, "its job ended: " + self.job.state, wall(EPOCH + self.world.now))), log={"bytes": log["size"], "missing": [] if log["whole"] else [[log["size"], -1]]})
        else:
            doc = load(path)
            if self.job.state in ("CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL") and doc["exit"]["cause"] == Cause.INTERRUPTED and doc["exit"]["message"].startswith(SIGNALLED):
                doc["exit"]["cause"] = cause
                if doc["attempts"]:
                    doc["attempts"][-1]["cause"] = cause
        self._file(os.path.relpath(path, self.top), json.dumps(doc))

    def _ended(self):
        with open(os.path.join(self.run_dir, "result.json")) as f:
            doc = json.load(f)
        self.world.say("result: %s" % json.dumps(doc["exit"]))
        self.cause = doc["exit"]["cause"]
        if self.job.state == "COMPLETED" and not self.by_client and not doc["exit"]["message"].startswith(SIGNALLED) and not self.told_to_end and not self.world.killings:
            self._check_secrets()
        if doc.get("job"):
            self._check_exit(doc)
            self._check_attempts(doc)
            self._check_output(doc)

    def _check_secrets(self):
        """A keeper that has written the last result has removed what must not outlive the cluster."""
        names = os.listdir(self.run_dir)
        left = [n for n in names if n in ("token", "secrets.json") or n.startswith("ray-token")] + [SEED] * os.path.isdir(os.path.join(self.top, SEED))
        if left and not self.full:
            raise Violation("%s outlive the cluster" % left)
