"""A model of a Slurm cluster: hosts, jobs, the controller, and the commands with which keeper and clients ask it.

What it copies, of Slurm 22.05 to 26.05 (shared/testbed-slurm.md, "Job control"; slurm/src/slurmctld):
- scancel, a requeue, a preemption, a failed node and the time limit all send SIGTERM to the batch script and to the steps, and SIGKILL after KillWait; the job is
  COMPLETING until its processes are gone, on the hosts that the controller reaches. slurmstepd writes why into the job's output ("DUE TO NODE FAILURE").
- A job that is queued again has `Restarts` one higher once it has completed (batch_requeue_fini), waits for a while (BeginTime), and may start on other hosts.
- A host that the controller does not reach is lost after SlurmdTimeout. What runs there lives on if the host does; it is ended when the host is reached again.
- USR1 comes to the batch script up to a minute before the warning is due, and before a preemption where the site has a GraceTime; the job's end is then that of the grace.
- While the controller is away its commands fail after 9 s. It may have done what it was asked, and its answer be lost.
- A job that has ended is listed for MinJobAge."""

import subprocess

from rayctl_keeper.node.groups.members import GANG
from sim.world import EPOCH

HOSTS = 12
HELD = ("RUNNING", "COMPLETING")
SLURMD_TIMEOUT = 15
YEAR = 365 * 86400.0
AWAY = "Unable to contact slurm controller (connect failure)"
TIMED_OUT = "Socket timed out on send/recv operation"
WAITS = ("Resources", "Priority", "BeginTime", "None")


class Host:
    """A node of the cluster."""

    def __init__(self, name):
        self.name, self.jump = name, 0.0
        self.up = True  # it has power
        self.cut = False  # the controller and other hosts do not reach it, nor it them
        self.hangs = False  # nor does it reach the files that all hosts share: whoever asks for one waits
        self.job = None  # that has it


class Job:
    """As the controller has it. An element of an array is one, too."""

    def __init__(self, number, name, hosts, run):
        self.id, self.name, self.count, self._run = number, name, hosts, run
        self.state, self.reason, self.restarts, self.requeues = "PENDING", "Resources", 0, True
        self.limit = self.warning = self.grace = None  # seconds
        self.submitted = self.start = self.end = 0.0  # by the controller's clock
        self.hosts, self.batch, self.steps = [], None, []
        self.output = None  # its file
        self.final, self.again, self.ended, self.warned = "", False, None, False
        self.doomed = False  # no host can ever run it

    @property
    def head(self):
        """Its first host, which has the batch script."""
        return self.hosts[0]

    def run(self):
        self.batch = self._run(self)


class Slurm:
    def __init__(self, life):
        self.life, self.world = life, life.world
        self.hosts = [Host("n%d" % number) for number in range(HOSTS)]
        self.jobs, self._number = {}, 10
        self.away_until = 0.0
        self.kill_wait = self.world.random.choice([2.0, 8.0, 30.0])
        self.min_age = self.world.random.choice([5.0, 300.0])
        self.preempts = self.world.chance(0.5)
        self.refuses = ""  # sbatch's words about jobs from compute nodes

    # Jobs.

    def submit(self, name, hosts, run, number=None, wait=None):
        """A job waits from now on."""
        number = number or self.next_number()
        job = self.jobs[number] = Job(number, name, hosts, run)
        job.submitted = self._clock()
        self.world.say("job %s (%s) is queued" % (number, name))
        self.world.after(self.world.between(0.1, 20.0) if wait is None else wait, self._grant, job)
        return job

    def next_number(self):
        self._number += 1
        return str(self._number)

    def _clock(self):
        return EPOCH + self.world.now

    def _grant(self, job):
        if job.state != "PENDING":
            return
        free = [h for h in self.hosts if h.up and not h.cut and h.job is None]
        if job.doomed or len(free) < job.count or self.world.now < self.away_until:
            job.reason = "BadConstraints" if job.doomed else self.world.random.choice(WAITS)
            self.world.after(self.world.between(1.0, 10.0), self._grant, job)
            return
        self.world.random.shuffle(free)
        job.hosts, job.state, job.reason, job.warned = free[:job.count], "RUNNING", "None", False
        for host in job.hosts:
            host.job = job
        job.start = float(int(self._clock()))
        job.end = job.start + (job.limit or YEAR)
        self.world.say("job %s runs on %s" % (job.id, " ".join(h.name for h in job.hosts)))
        if job.limit:
            early = self.world.between(0.0, 60.0)
            if job.warning:
                self.world.after(max(1.0, job.limit - job.warning - early), self._warn, job, job.restarts)
            self.world.after(job.limit + self.world.between(0.0, 30.0), self._time_limit, job, job.restarts)
        job.run()

    def _warn(self, job, restarts):
        if job.state == "RUNNING" and job.restarts == restarts and not job.warned:
            job.warned = True
            self.world.say("job %s is warned" % job.id)
            self._tell(job, "USR1", steps=False)

    def _time_limit(self, job, restarts):
        if job.state == "RUNNING" and job.restarts == restarts and self._clock() >= job.end:
            self.world.fault("job %s reaches its time limit" % job.id)
            self.terminate(job, "TIMEOUT", word="TIME LIMIT")

    def preempt(self, job):
        """For a job of higher priority; with a grace where the site has one."""
        if job.state != "RUNNING":
            return
        self.world.fault("job %s is preempted" % job.id)
        if self.preempts and self.world.chance(0.5):
            job.grace = self.world.between(5.0, 40.0)
            job.end = self._clock() + job.grace
            self._warn(job, job.restarts)
            self.world.after(job.grace, self._preempted, job, job.restarts)
        else:
            self._preempted(job, job.restarts)

    def _preempted(self, job, restarts):
        if job.state == "RUNNING" and job.restarts == restarts:
            self.terminate(job, "PREEMPTED", again=job.requeues, word="PREEMPTION")

    def requeue(self, job):
        """scontrol requeue. Returns whether the controller does it."""
        if not job.requeues or job.state not in ("RUNNING", "COMPLETING"):
            return False
        if job.state == "COMPLETING":
            job.again = True
            return True
        self.terminate(job, "CANCELLED", again=True, word="JOB REQUEUE")
        return True

    def cancel(self, job):
        """scancel."""
        if job.state == "PENDING":
            self._is_over(job, "CANCELLED")
        elif job.state == "RUNNING":
            self.terminate(job, "CANCELLED")
        elif job.state == "COMPLETING":
            job.again = False

    def terminate(self, job, final, again=False, word=""):
        """The job's processes get SIGTERM, and SIGKILL later. Afterwards it is over in this state, or waits again."""
        job.state, job.final, job.again = "COMPLETING", final, again
        self.world.say("job %s is ended: %s%s" % (job.id, final, ", and queued again" if again else ""))
        if word and self.reaches(job.head) and job.output:
            with open(job.output, "a") as f:
                f.write("slurmstepd: error: *** JOB %s ON %s CANCELLED AT 2027-01-01T00:00:00 DUE TO %s%s ***\n" % (
                    job.id, job.head.name, word, ", SEE SLURMCTLD LOG FOR DETAILS" if word == "NODE FAILURE" else ""))
        self._tell(job, "TERM")
        self.world.after(self.kill_wait, self._kill, job, job.restarts)
        self.world.after(0.3, self._complete, job)

    def _tell(self, job, name, steps=True):
        """A signal, to each at another moment."""
        incarnation = job.restarts
        if job.batch is not None and self.reaches(job.head):
            self.world.after(self.world.between(0.0, 0.8), self._tell_batch, job, job.batch, name, incarnation)
        for step in list(job.steps) if steps else ():
            for supervisor in list(step.supervisors):
                if self.reaches(supervisor.host):
                    self.world.after(self.world.between(0.0, 0.8), supervisor.signal, name)

    def _kill(self, job, restarts):
        if job.restarts == restarts and job.state == "COMPLETING":
            self._tell(job, "KILL")

    def _tell_batch(self, job, batch, name, restarts):
        if job.restarts == restarts and job.batch is batch and self.reaches(batch.host):
            batch.signal(name)

    def _complete(self, job):
        """Looks whether all of its processes are gone."""
        if job.state != "COMPLETING":
            return
        if any(self.reaches(s.host) and s.alive for step in job.steps for s in step.supervisors) or job.batch is not None and self.reaches(job.head) and job.batch.alive:
            self.world.after(0.5, self._complete, job)
            return
        self._free(job)
        if not job.again:
            self._is_over(job, job.final)
            return
        job.state, job.reason, job.restarts, job.again = "PENDING", "BeginTime", job.restarts + 1, False
        job.submitted = self._clock()
        self.world.say("job %s is queued again" % job.id)
        self.world.after(self.world.random.choice([6.0, 6.0, 30.0]) + self.world.between(0.0, 20.0), self._grant, job)

    def _free(self, job):
        for host in job.hosts:
            if host.job is job:
                host.job = None
        for step in job.steps:  # a host that is not reached has them still
            step.left = [s for s in step.supervisors if s.alive]
        if job.batch is not None and job.batch.alive:
            self.life.left_behind.append(job.batch)
        job.batch, job.steps = None, []

    def _is_over(self, job, state):
        job.state, job.ended = state, self.world.now
        self.world.say("job %s is %s" % (job.id, state))
        self.life.job_is_over(job)

    def batch_ended(self, job, batch, code):
        """Its batch script has ended: so has the job, and its steps with it, as soon as the controller knows."""
        batch.alive = False
        if job.batch is not batch or not batch.host.up:
            return
        if not self.reaches(batch.host):
            self.world.after(2.0, self.batch_ended, job, batch, code)
            return
        if job.state == "RUNNING":
            job.state, job.final, job.again = "COMPLETING", "COMPLETED" if code == 0 else "FAILED", False
            self.world.say("the batch script of job %s ends with %d" % (job.id, code))
            self._tell(job, "TERM")
            self.world.after(self.kill_wait, self._kill, job, job.restarts)
            self.world.after(0.3, self._complete, job)

    # Hosts.

    def reaches(self, host):
        """Whether the controller does."""
        return host.up and not host.cut

    def power_off(self, host):
        """All that runs there is gone, without a word."""
        self.world.fault("host %s loses power" % host.name)
        host.up = False
        self._processes_end(host)
        self.world.after(self.world.between(SLURMD_TIMEOUT, 2 * SLURMD_TIMEOUT), self._lost, host, host.job)

    def cut(self, host, seconds, hangs):
        """Nobody reaches it for so long, nor it them."""
        self.world.fault("host %s is cut off for %.0f s%s" % (host.name, seconds, ", from the files, too" if hangs else ""))
        host.cut, host.hangs = True, hangs
        self.world.after(self.world.between(SLURMD_TIMEOUT, 2 * SLURMD_TIMEOUT), self._lost, host, host.job)
        self.world.after(seconds, self._healed, host)
        self.life.cut(host)

    def _lost(self, host, job):
        """The controller takes it for down."""
        if self.reaches(host) or job is None or host.job is not job or job.state not in HELD:
            return
        self.world.say("Slurm has lost host %s" % host.name)
        for step in job.steps:
            step.node_failed(host)
        if job.state == "RUNNING":
            self.terminate(job, "NODE_FAIL", again=job.requeues, word="NODE FAILURE")

    def _healed(self, host):
        host.cut = host.hangs = False
        self.world.say("host %s is reached again" % host.name)
        self.world.after(self.world.between(0.2, 5.0), self._end_strangers, host)

    def _end_strangers(self, host):
        """slurmd ends what the controller does not know there."""
        if not self.reaches(host):
            return
        for batch in [b for b in self.life.left_behind if b.host is host and b.alive]:
            batch.signal("KILL")
        for supervisor in self.life.supervisors:
            if supervisor.host is host and supervisor.alive and supervisor.step not in (host.job.steps if host.job else ()):
                supervisor.signal("KILL")

    def _processes_end(self, host):
        for supervisor in list(self.life.supervisors):
            if supervisor.host is host and supervisor.alive:
                supervisor.power_off()
        for batch in list(self.life.batches):
            if batch.host is host and batch.alive:
                batch.signal("POWER")

    # Commands.

    def command(self, argv, limit=None):
        """(exit code, output, errors) of one of Slurm's commands that the present process runs, for at most so many seconds."""
        world, host = self.world, self.world.current.process.host
        if self._unreached(host):
            seconds = 9.0 if world.now < self.away_until else world.random.choice([9.0, 25.0, 70.0])  # nobody refuses the connection
            world.spend(seconds if limit is None else min(seconds, limit))
            if limit is not None and seconds > limit:
                raise subprocess.TimeoutExpired(argv, limit)
            return 1, "", "%s: error: %s\n" % (argv[0], AWAY)
        world.spend(world.between(0.005, 0.05) if not world.chance(0.02) else world.between(1.0, 8.0))
        if self._unreached(host):
            return 1, "", "%s: error: %s\n" % (argv[0], AWAY)
        lost = self.life.loses()
        if lost == "request":
            world.fault("a request to the controller is lost")
            world.spend(10.0)
            return 1, "", "%s: error: %s\n" % (argv[0], TIMED_OUT)
        answer = getattr(self, "_" + argv[0])(list(argv[1:]))
        if lost == "answer":
            world.fault("an answer of the controller is lost")
            world.spend(10.0)
            return 1, "", "%s: error: %s\n" % (argv[0], TIMED_OUT)
        world.spend(world.between(0.001, 0.02))
        return answer

    def _unreached(self, host):
        return self.world.now < self.away_until or host is not None and not self.reaches(host)

    def _known(self, job):
        return job is not None and (job.ended is None or self.world.now < job.ended + self.min_age)

    def _scontrol(self, words):
        if words == ["show", "config"]:
            return 0, "SlurmdTimeout           = %d sec\nPreemptType             = preempt/%s\n" % (SLURMD_TIMEOUT, "partition_prio" if self.preempts else "none"), ""
        job = self.jobs.get(words[-1]) or self.jobs.get(words[1].partition("=")[2])
        if not self._known(job):
            return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
        if words[:2] == ["show", "job"]:
            return 0, "JobId=%s JobName=%s\n   JobState=%s Reason=%s\n   Requeue=%d Restarts=%d\n" % (job.id, job.name, job.state, job.reason, job.requeues, job.restarts), ""
        if words[0] == "update":
            job.requeues = words[2] == "Requeue=1"
            return 0, "", ""
        if words[0] == "requeue" and self.requeue(job):
            return 0, "", ""
        return 1, "", "Requested operation is presently disabled for job %s\n" % job.id

    def _scancel(self, words):
        options, ids = [w for w in words if w.startswith("--")], [w for w in words if not w.startswith("--")]
        signals = [o.partition("=")[2] for o in options if o.startswith("--signal=")]
        if signals:
            for step in [s for number in ids for s in self._steps(number.partition(".")[0])]:
                for supervisor in list(step.supervisors):
                    if signals[0] in ("USR1", "TERM", "KILL") and self.reaches(supervisor.host):
                        self.world.after(self.world.between(0.0, 0.5), supervisor.signal, signals[0])
            return 0, "", ""
        names = [o.partition("=")[2] for o in options if o.startswith("--name=")]
        for job in list(self.jobs.values()):
            if (not names or job.name == names[0]) and (not ids or job.id in ids or job.id.partition("_")[0] in ids) and (job.state == "PENDING" or "--state=PENDING" not in options):
                self.cancel(job)
        return 0, "", ""

    def _steps(self, number):
        job = self.jobs.get(number)
        return [s for s in job.steps if s.alive] if job else []

    def _squeue(self, words):
        options = dict(w.lstrip("-").partition("=")[::2] for w in words)
        jobs = [j for j in self.jobs.values() if self._known(j)]
        if "jobs" in options:
            jobs = [j for j in jobs if j.id in options["jobs"].split(",")]
            if not jobs:
                return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
        if "name" in options:
            jobs = [j for j in jobs if j.name == options["name"]]
        if "states" not in options:
            jobs = [j for j in jobs if j.ended is None]
        if "steps" in options:
            return 0, "".join("%s.%s\n" % (j.id, s) for j in jobs for s in ["batch"] + ["0"] * any(step.alive for step in j.steps)), ""
        return 0, "".join(options["format"].replace("%i", j.id).replace("%T", j.state).replace("%S", self._moment(j.start, j)).replace("%e", self._moment(j.end, j))
                          .replace("%r", j.reason).replace("%V", "%d" % j.submitted).replace("%l", span(j.limit)) + "\n" for j in jobs), ""

    def _moment(self, at, job):
        return "%d" % at if job.hosts and job.state != "PENDING" else "N/A"

    def _sbatch(self, words):
        if self.refuses:
            return 1, "", "sbatch: error: Batch job submission failed: %s\n" % self.refuses
        options = dict(w.lstrip("-").partition("=")[::2] for w in words if w.startswith("--"))
        _, place, *pairs = [w for w in words if not w.startswith("--")]
        pairs = list(zip(pairs[::2], pairs[1::2]))
        number = self.next_number()
        for name, serial in pairs:
            element = number if "array" not in options else "%s_%s" % (number, name.rpartition("-")[2])
            gang = name == GANG
            job = self.submit(options["job-name"], self.life.workers() if gang else 1, self._companion(place, name, serial), element, self.world.between(0.1, self.world.random.choice([5.0, 60.0])))
            job.requeues, job.doomed = False, self.world.chance(0.03)
            job.limit = 60.0 * int(options["time"]) if "time" in options else self.life.companions_limit
            job.warning = float(options["signal"].rpartition("@")[2]) if "signal" in options else 60.0
        return 0, number + "\n", ""

    def _companion(self, place, name, serial):
        from sim.step import CompanionBatch
        return lambda job: CompanionBatch(self, job, place, name, serial)


def span(limit):
    """A time limit as squeue writes it."""
    return "UNLIMITED" if limit is None else "%d:%02d:%02d" % (limit // 3600, limit // 60 % 60, limit % 60)
