"""Models of what runs in a Slurm job: batch scripts, srun and its step, the supervisors of the nodes; and the keeper's own class for a step with these in the place of
Slurm's.

What they copy: srun carries the lines of its tasks and passes a signal on to those that it reaches, goes on when one of them ends (--kill-on-bad-exit=0, --wait=0), says of
one that was killed "task 0: Killed", and is refused while the job is ending; a supervisor tries to start a worker three times, ends all of its node at a signal, and
one of a separate job ends with the head's GCS (node/supervisor.py, node/headwatch.py)."""

import json
import os
import shutil
import signal

from rayctl_keeper.node.files import raytoken
from rayctl_keeper.node.files.rest import save_rest
from rayctl_keeper.node.groups import members
from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.run.nodes.step import Step
from rayctl_keeper.slurm.batch import killed, start
from rayctl_keeper.slurm.companions.submission import given, leaves
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.model import Cause
from sim.ray import Head
from sim.substrate import FATAL, WORTH
from sim.world import EPOCH, Process

TRIES = 3  # of a worker's supervisor
GCS_LOST = 60.0  # seconds after which a raylet ends without its GCS
REACH = 8.0  # seconds in which a node with a separate job must have reached the head


class Batch:
    """The cluster's batch script (slurm/batch/batch.py) and the keeper below it."""

    def __init__(self, slurm, job):
        self.slurm, self.job, self.life, self.world, self.host = slurm, job, slurm.life, slurm.world, job.head
        self.alive, self.concludes, self.waiting = True, None, []
        self.life.batches.append(self)
        self.environ = {"SLURM_JOB_ID": job.id, "RAYCTL_RESTARTS": str(job.restarts), "SLURM_JOB_START_TIME": "%d" % job.start, "SLURM_JOB_END_TIME": "%d" % job.end,
                        "SLURMD_NODENAME": self.host.name, "PATH": "/bin"}
        self.process = Process(self.world, "keeper", dict(self.environ), self.host)
        self.world.start(self.process, self._start)

    def _start(self):
        """The role slurm-start."""
        self.world.spend(self.world.between(0.2, 3.0))
        try:
            code = start.begin_attempt(self.life.top, "nonce")
        except SystemExit as error:
            self.world.say("the batch script: %s" % error)
            code = 1
        except OSError as error:
            self.world.say("the batch script: %s" % error)
            code = 1
        self.process.killed = True
        self.process.end()
        self.world.after(0.05, self.ended, code)

    def signal(self, name):
        """Slurm's, or the machine's end."""
        process = self.process
        self.world.say("the batch script on %s gets %s" % (self.host.name, name))
        if name in ("KILL", "POWER"):
            if not process.killed:
                self.world.killings += 1
            process.end()
            if self.concludes:
                self.concludes.end()
            self.alive = False
            self.life.keeper_is_gone(process)
            if name == "KILL":
                self.slurm.batch_ended(self.job, self, 1)
        elif process.killed:
            pass  # batch.py only passes it on
        elif process.bell is None and name == "USR1":
            self.waiting.append(name)  # it is blocked until the keeper takes it
        elif process.bell is not None:
            self.life.told_to_end = self.life.told_to_end or name == "TERM"
            process.bell.signal({"USR1": signal.SIGUSR1, "TERM": signal.SIGTERM}[name])
        else:
            process.end()
            self.life.keeper_is_gone(process)
            self.world.after(0.05, self.ended, 143)

    def keeper_killed(self):
        """By somebody: its batch script lives."""
        self.world.kill(self.process)
        self.life.keeper_is_gone(self.process)
        self.world.after(0.05, self.ended, -9)

    def ended(self, code):
        if not self.alive or self.concludes:
            return
        if code < 0:
            self.concludes = Process(self.world, "batch script", dict(self.environ), self.host)
            self.world.start(self.concludes, self._conclude)
        else:
            self.slurm.batch_ended(self.job, self, code)

    def _conclude(self):
        code = 0
        try:
            killed.conclude_attempt(self.life.top)
        except OSError as error:
            self.world.say("the batch script: %s" % error)
            code = 1
        self.slurm.batch_ended(self.job, self, code)


class CompanionBatch:
    """The batch script of a job for a further node, or for an early head's gang (slurm/companions/companion.py)."""

    def __init__(self, slurm, job, place, name, serial):
        self.slurm, self.job, self.world, self.host = slurm, job, slurm.world, job.head
        self.place, self.name, self.serial, self.alive = place, name, serial, True
        slurm.life.batches.append(self)
        self.world.after(self.world.between(0.1, 2.0), self._begin)

    def _begin(self):
        if not self.alive:
            return
        if os.path.exists(os.path.join(self.place, "result.json")) or not os.path.exists(given(self.place, self.name, self.serial)):
            self._ended(0)
            return
        with open(given(self.place, self.name, self.serial)) as f:
            environ = json.load(f)
        with open(os.path.join(self.place, "orders.json")) as f:
            orders = json.load(f)
        gang = self.name == GANG
        wanted = members.members(orders)[1:] if gang else [members.named(orders, self.name)]
        if not gang:
            wanted[0].serial = int(self.serial)
        self.step = Task(self.slurm, self.job, self.place, wanted, environ, self._line if gang else None, "gang" if gang else "own", lambda code: self.world.after(0.05, self._ended, code))

    def _line(self, line):
        with open(os.path.join(self.place, "nodes", GANG, "companion.%s.out" % self.serial), "ab") as f:
            f.write(line)

    def signal(self, name):
        if name == "USR1":
            end, cause = self.job.end, Cause.PREEMPTED if self.job.grace else Cause.TIME_LIMIT
            path = leaves(self.place, self.name, self.serial)
            if os.path.isdir(os.path.dirname(path)):
                with open(path, "w") as f:
                    f.write("%f %s\n" % (end, cause))
        elif name in ("KILL", "POWER"):
            self.alive = False
            if name == "KILL":
                self.slurm.batch_ended(self.job, self, 1)

    def _ended(self, code):
        if self.alive:
            self.slurm.batch_ended(self.job, self, code)


class Task:
    """A step: one supervisor on each host of its job."""

    def __init__(self, slurm, job, place, wanted, environ, line, how, ended):
        self.slurm, self.job, self.place, self.life, self.world = slurm, job, place, slurm.life, slurm.world
        self.alive, self._line, self._ended, self.supervisors, self._code = True, line, ended, [], 0
        self.errors, self.nodes = lambda text: None, None
        self.host = job.head  # srun's
        job.steps.append(self)
        for member, host in zip(wanted, job.hosts):
            if host.up:
                self.supervisors.append(Supervisor(self, host, member, environ, how))
        self.life.supervisors += self.supervisors

    def report(self, supervisor, report):
        """A line of a task's output."""
        if self._line is not None and self._reaches(supervisor.host):
            self.world.after(self.world.between(0.005, 0.3), self._carried, json.dumps(report).encode() + b"\n")

    def _carried(self, line):
        if self._line is not None:
            self._line(line)

    def _reaches(self, host):
        return host is self.host or self.slurm.reaches(self.host) and self.slurm.reaches(host)

    def task_ended(self, supervisor, code):
        """srun learns it as soon as it is reached."""
        if not self.host.up or not supervisor.host.up:
            return
        if not self._reaches(supervisor.host):
            self.world.after(2.0, self.task_ended, supervisor, code)
            return
        supervisor.known = True
        if code < 0:
            self.errors("srun: error: %s: task %d: Killed" % (supervisor.host.name, self.supervisors.index(supervisor)))
        self._code = max(self._code, 128 - code if code < 0 else code)
        self._look()

    def node_failed(self, host):
        """The controller has lost a host: its tasks count as ended, where it reaches srun."""
        if not self.slurm.reaches(self.host):
            return
        self.errors("srun: error: Node failure on %s" % host.name)
        for supervisor in self.supervisors:
            if supervisor.host is host:
                supervisor.known = True
        self._code = max(self._code, 1)
        self._look()

    def _look(self):
        if self.alive and all(s.known for s in self.supervisors):
            self.alive = False
            self.world.after(0.4, self._ended, self._code)

    def signal(self, name):
        for supervisor in list(self.supervisors):
            if self._reaches(supervisor.host):
                self.world.after(self.world.between(0.0, 0.3), supervisor.signal, name)


class Stream:
    """An end of a pipe that srun writes to, and the thread of the keeper's that reads it."""

    def __init__(self):
        self.take = self.bell = None

    def write(self, line):
        if self.take is not None:
            self.take(line)
            self.bell.ring()


class Srun:
    """The command with which the keeper starts its step."""

    def __init__(self, nodes, pid, environ):
        self.nodes, self.process, self.pid, self.environ = nodes, nodes.process, pid, environ
        self.life, self.world, self.slurm = nodes.life, nodes.life.world, nodes.life.slurm
        self.job = self.life.job_of(self.process)
        self.stdout, self.stderr, self.alive, self.step = Stream(), Stream(), True, None
        self._asked = False
        self._restarts = self.job.restarts
        self.world.after(self.world.between(0.05, 0.6), self._begin)

    def _begin(self):
        if not self.alive:
            return
        if self._asked:
            return self.end(130)
        job, slurm = self.job, self.slurm
        if slurm._unreached(self.process.host):
            self.world.after(9.0, self._fails, "Unable to create step for job %s: Unable to contact slurm controller (connect failure)" % job.id)
        elif job.state != "RUNNING" or job.restarts != self._restarts:
            self._fails("Unable to create step for job %s: Job/step already completing or completed" % job.id)
        elif any(s.alive for s in job.steps):
            self.world.after(1.0, self._begin)  # Step creation temporarily disabled, retrying
        elif any(not slurm.reaches(host) for host in job.hosts):
            self.world.after(10.0, self._fails, "Task launch for StepId=%s.0 failed on node %s: Communication connection failure" % (
                job.id, next(h.name for h in job.hosts if not slurm.reaches(h))))
        else:
            self.step = Task(slurm, job, self.nodes.run_dir, [m for m in self.nodes.members if not m.serial][:len(job.hosts)], self.environ, self._line, "step", self.end)
            self.step.errors = self._error
            self.step.nodes = self.nodes

    def _fails(self, text):
        if self.alive:
            self._error("srun: error: " + text)
            self.end(1)

    def _line(self, line):
        if self.alive and not self.process.killed:
            self.stdout.write(line)

    def _error(self, text):
        if self.alive and not self.process.killed:
            self.stderr.write(text.encode() + b"\n")

    def signal(self, number):
        if not self.alive:
            raise ProcessLookupError(3, "No such process")
        self._asked = True
        if self.step is not None:
            self.step.signal("USR1")

    def end(self, code):
        if self.alive:
            self.alive = False
            self.world.say("srun ends with %d" % code)
            if not self.process.killed:
                self.life.child_ended(self.process, self.pid, code)


class Supervisor:
    """node/supervisor.py and its Ray node. how: a task of the keeper's own step ("step"), of the gang's job, or with a separate job ("own")."""

    def __init__(self, step, host, member, environ, how):
        self.step, self.host, self.member, self.how, self.environ = step, host, member, how, environ
        self.life, self.world, self.place = step.life, step.world, step.place
        self.round, self.serial = int(environ["RAYCTL_ROUND"]), member.serial
        self.alive, self.known, self.head, self.tries, self._last, self._asked, self._life = True, False, None, 0, "", False, 0
        self.joined = self.directory = self.gone = None
        self.world.after(self.world.between(0.1, 1.0), self._try)

    def _try(self):
        """One start of Ray."""
        if not self.alive or self._asked:
            return
        head = self._known_head()
        if self.how != "step" and (head is None or not head.alive or not self._reaches(head)):
            if self.tries:
                self._exit(0, "ended", "")
            else:
                self.world.after(REACH, self._not_reached)
            return
        self._life += 1
        self.life.pid += 1
        self.pid = self.life.pid
        self.directory = os.path.join(self.life.dir, "r%08x" % self.pid)
        os.makedirs(os.path.join(self.directory, "t", "session_2", "logs"))
        self._report("starting", self._last)
        if self.how != "step":
            self.world.after(2.0, self._watch_head, head, self._life)
        if self.life.start_fails(self.member):
            self.world.after(self.world.between(0.2, 4.0), self._start_fails, self._life)
        elif self.member.head:
            self.world.after(self.world.between(0.5, 12.0), self._head_up, self._life)
        else:
            self._await_head(self._life)

    def _not_reached(self):
        if self.alive and not self._asked:
            head = self._known_head()
            if head is not None and head.alive and self._reaches(head):
                self._try()
            else:
                self._exit(1, "failed", "%s cannot connect to the head" % self.host.name, unreached=True)

    def _known_head(self):
        return self.life.heads.get("http://" + self.environ.get("RAYCTL_GCS", "").partition(":")[0])

    def _reaches(self, head):
        return head.host is self.host or not head.host.cut and not self.host.cut

    def _start_fails(self, life):
        if self.alive and life == self._life:
            text = self.world.random.choice([WORTH, FATAL])
            self.world.fault("the start of %s fails: %s" % (self.member.name, text))
            self.ray_ends(text)

    def _head_up(self, life):
        if not self.alive or life != self._life or self._asked:
            return
        name = "head-%d" % self.pid
        self.head = self.life.heads["http://" + name] = Head(self.world, self.life, "session_%d" % self.pid, self.life.grace, self.directory)
        self.head.supervisor, self.head.host = self, self.host
        self.world.after(self.world.between(0.0, 3.0), self.head.join, self.member.name, self.member.group["name"], True)

    def _await_head(self, life):
        if not self.alive or life != self._life or self._asked:
            return
        head = self.life.step_head(self.step.nodes, self.round) if self.how == "step" else self._known_head()
        if head is None or head.alive and not head.answers:
            self.world.after(0.5, self._await_head, life)
        elif not head.alive:
            self.world.after(20.0, self._gcs_lost, life)
        else:
            self.world.after(self.world.between(0.3, 6.0), self._join, head, life)

    def _join(self, head, life):
        if self.alive and life == self._life and not self._asked:
            if head.alive and self._reaches(head):
                self.joined = head
                head.join(self.member.name, self.member.group["name"], False)
            else:
                self.world.after(20.0, self._gcs_lost, life)

    def _gcs_lost(self, life):
        if self.alive and life == self._life:
            self.ray_ends("Failed to connect to GCS within 60 seconds")

    def head_gone(self, head):
        """Its raylet does not reach the GCS any more."""
        if self.joined is head:
            self.world.after(GCS_LOST, self._gcs_lost, self._life)

    def _watch_head(self, head, life):
        """headwatch.py: of a node with a separate job."""
        if not self.alive or life != self._life or self._asked:
            return
        if not head.alive or not head.host.up:
            self.world.after(self.world.between(0.0, 3.0) if head.host.up else 40.0, self.signal, "TERM")
        elif not self._reaches(head):
            self.world.after(40.0, self._cut_from_head, head, life)
        else:
            self.world.after(2.0, self._watch_head, head, life)

    def _cut_from_head(self, head, life):
        if self.alive and life == self._life and not self._asked:
            if self._reaches(head) and head.alive:
                self._watch_head(head, life)
            else:
                self.signal("TERM")

    def ray_ends(self, message):
        """All of Ray's here, but not the supervisor: it tries again, or gives up."""
        if not self.alive:
            return
        self._clean()
        message = "ray start on node %s exited with code 1: %s" % (self.member.name, message)
        self._last, retry = message, not self.member.head and self.tries + 1 < TRIES and FATAL not in message and not self._is_leaving()
        if retry:
            self.tries += 1
            self._report("retrying", message)
            self.world.after(self.world.between(0.1, 1.0), self._try)
        else:
            self._exit(1, "failed", message)

    def _is_leaving(self):
        path = leaves(self.place, self.member.name, self.serial)
        return os.path.exists(path) and os.path.getsize(path) > 0

    def _clean(self, saves=True):
        """Nothing of the node is left."""
        self._life += 1
        if self.head is not None:
            self.head.die()
        elif self.joined is not None:
            self.world.after(self.world.between(0.1, 8.0), self.joined.lose, self.member.name)
        self.joined = None
        if self.directory is None:
            return
        if saves and not self.host.hangs:
            try:
                save_rest(self.place, self.directory, os.path.join(self.place, "nodes", self.member.name))
            except OSError:
                pass
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory = None

    def signal(self, name):
        if not self.alive:
            return
        if name == "KILL":
            self._clean(saves=False)  # by its guards
            self._ends(-9)
        elif not self._asked:
            self._asked = True
            self.world.after(self.world.between(0.01, 1.5), self._obey)

    def _obey(self):
        if self.alive:
            self._clean()
            self._exit(0, "ended", "")

    def power_off(self):
        """Without a word: it is found out."""
        self._clean(saves=False)
        self.alive, self.gone = False, self.world.now
        self.world.say("the supervisor of %s is gone" % self.member.name)

    def _exit(self, code, state, message, **more):
        self._report(state, message, **more)
        self._ends(code)

    def _ends(self, code):
        self.alive, self.gone = False, self.world.now
        self.world.say("the supervisor of %s ends with %d" % (self.member.name, code))
        self.step.task_ended(self, code)

    def _report(self, state, message, **more):
        report = dict({"name": self.member.name, "state": state, "message": message, "at": wall(EPOCH + self.world.now), "pid": self.life.pid, "host": self.host.name,
                       "directory": self.directory or "", "round": self.round, "try": self.tries, "serial": self.serial}, **more)
        if self.how == "own":
            path = os.path.join(self.place, "nodes", self.member.name, "report.json")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                json.dump(report, f)
        else:
            self.step.report(self, report)


class SimStep(Step):
    """The keeper's own class, with the model's srun."""

    def __init__(self, life, orders, run_dir, bell, log):
        super().__init__(orders, run_dir, bell, log)
        self.life, self.process = life, life.world.current.process
        self.process.nodes, self.process.bell = self, bell

    def choose_addresses(self):
        self.token, self.gcs, self.dashboard, self.client_port = raytoken.make(self.run_dir, self.round), "", "", 10001
        return {"RAYCTL_ROUND": str(self.round), "RAYCTL_GCS": ""}

    def find_head(self):
        if not self.dashboard:
            head = self.life.step_head(self, self.round)
            if head is not None and head.answers:
                name = "head-%d" % head.supervisor.pid
                self.dashboard, self.gcs = "http://" + name, name + ":1"
                self.env["RAYCTL_GCS"] = self.gcs
        return bool(self.dashboard)

    def launch(self, argv, name, env, stdin, stdout=None, stderr=None):
        self.life.pid += 1
        srun = self.life.sruns[self.life.pid] = Srun(self, self.life.pid, dict(env))
        self.children[self.life.pid] = (srun, name)
        return srun

    def directories(self):
        """Those on this host."""
        return [s.directory for s in self._here() if s.directory]

    def _here(self):
        return [s for srun in self.life.sruns.values() if srun.nodes is self and srun.step for s in srun.step.supervisors if s.host is self.process.host]

    def end_here(self):
        codes = {}
        for pid, (srun, _) in self.children.items():
            srun.alive = False
            codes[pid] = -9
        for supervisor in self._here():
            supervisor.signal("KILL")
        codes.update(self.life.reap())
        return set(), codes
