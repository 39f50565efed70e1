"""The companion jobs of a cluster, one for each node that Ray's autoscaler asked for, and that of an early head's gang: how the keeper submits them, looks at
them and cancels them."""

import json
import os
import queue
import subprocess
import threading
import time

from rayctl_keeper.node.members import GANG
from rayctl_keeper.slurm import commands, reasons
from rayctl_keeper.state.document import wall, write_atomically

QUICK, SLOW, SLOWER = 2.0, 30.0, 1.5  # seconds between looks at jobs after a change, at most, and how that grows
PATIENCE = 60.0  # seconds for one of Slurm's commands: the controller may be busy
AT_THE_END, UNDER_WAY, LOOK = 10.0, 3.0, 0.3
SETTLES = 8.0  # seconds in which a job that is COMPLETING shows why it ended, as its next state
FAR = 300 * 86400.0  # seconds: Slurm plans so far ahead only where a job without a time limit is in the way
BELIEVE = 12.0  # a controller that was restarted recovers jobs from their nodes (slurm/batchjob/fate.go)
ENDING = ("COMPLETING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "REVOKED")
# Of the job that we are in: sbatch would take them for settings of the new one, or pass them on to it.
OURS = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI", "RAYCTL_")
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_SACK_SOCKET")


def given(place, name, serial):
    """The file with what the node's supervisor is told in its environment."""
    return os.path.join(place, "nodes", name, "companion.%s.json" % serial)


def end_all(orders, limit=AT_THE_END):
    """Cancels all companion jobs of the cluster, also those of whose submission there was no answer."""
    wish = (orders.get("start") or {}).get("companions")
    if wish:
        try:
            commands.call("scancel", "--name=" + wish["name"], timeout=limit)
        except subprocess.TimeoutExpired:
            pass  # they end by themselves: companion.py, node/headwatch.py


class Companions:
    """A thread asks Slurm; the keeper's own never waits for it."""

    def __init__(self, orders, run_dir, bell, log):
        self._orders, self._run_dir, self._bell, self._log = orders, run_dir, bell, log
        self._wish = (orders.get("start") or {}).get("companions") or {"name": "", "scripts": {}}
        self._tasks, self._thread = queue.Queue(), None
        self._jobs = {}  # by node name: {"member", "id", "state", "reason"}
        self._known = set()  # ids of all that ever were
        self._ended = []  # [(node name, exit code)], not yet taken
        self._closed = False

    # For the keeper's thread.

    def submit(self, member, environ):
        """Asks for a node."""
        self._jobs[member.name] = {"member": member, "id": "", "state": "PENDING", "reason": "", "starts": 0.0, "words": "", "again": None, "ends": None}
        self._tasks.put((self._submit, member, environ))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="companions")
            self._thread.start()

    def cancel(self, member):
        """Gives a node up."""
        self._tasks.put((self._cancel, member))

    def ended(self):
        """The nodes whose jobs have ended since it was last asked."""
        return [self._ended.pop(0) for _ in range(len(self._ended))]

    def standing(self, member):
        """Whether the node is queued or granted, and Slurm's reason; None: its job has ended."""
        job = self._jobs.get(member.name)
        if job is None:
            return None
        if job["state"] != "PENDING":
            return "granted", "job " + job["id"]
        return "queued", "job %s: %s" % (job["id"], job["reason"]) if job["id"] else "being submitted"

    def explained(self, gang):
        """standing() of a gang's job, with Slurm's reason in words in the place of its message, and whether the job can never start: (queued or granted, reason, words,
        never). None: it has ended."""
        job = self._jobs.get(gang.name)
        if job is None:
            return None
        if not job["id"]:
            return "queued", "Submitted", "its job is being submitted" + ("; " + job["words"] if job["words"] else ""), False
        if job["state"] != "PENDING":
            return "granted", "", "job " + job["id"], False
        code, words, never = reasons.explain(job["reason"])
        starts = job["starts"] and "; Slurm expects to start it at " + wall(job["starts"])
        return "queued", code, "%s (job %s)%s" % (words, job["id"], starts or ""), never

    def look_soon(self):
        """Looks at the jobs before it would."""
        self._tasks.put((self._look,))

    def look_now(self):
        """Looks at the jobs, and waits for it."""
        looked = threading.Event()
        self._tasks.put((self._look,))
        self._tasks.put((looked.set,))
        looked.wait(UNDER_WAY)

    def close(self):
        """The end begins: what is queued is not needed any more. Drivers that get their grace may last longer than the keeper (KillWait)."""
        self._closed = True
        if self._thread:
            self._tasks.put((self._run, "scancel", "--state=PENDING", "--name=" + self._wish["name"]))

    def end(self):
        """Cancels all, at the end, also what is just being submitted."""
        self._closed = True
        if self._thread:
            idle = threading.Event()
            self._tasks.put((idle.set,))
            idle.wait(UNDER_WAY)
            end_all(self._orders)
        self._jobs = {}

    def wait(self, limit):
        """Until Slurm has the cancelled jobs' nodes back: the result says that nothing is allocated. Not longer than that many seconds."""
        until = time.monotonic() + limit
        while self._known and time.monotonic() < until:
            if all(state in ENDING and state != "COMPLETING" for _, state, *_ in self._rows() or []):
                return
            self._bell.wait(LOOK)

    def begin(self):
        """Another cluster is going to start."""
        self._closed = False

    # In the thread.

    def _work(self):
        pause = QUICK
        while True:
            try:
                function, *arguments = self._tasks.get(timeout=pause)
                function(*arguments)
                pause = QUICK
            except queue.Empty:
                pause = QUICK if self._look() else min(SLOW, pause * SLOWER)
            except Exception as error:
                self._log("companion jobs: %s: %s" % (type(error).__name__, error))

    def _submit(self, member, environ):
        job = self._jobs.get(member.name)
        if job is None or job["member"] is not member or self._closed:
            return
        try:
            os.makedirs(os.path.dirname(given(self._run_dir, member.name, member.serial)), mode=0o700, exist_ok=True)
            write_atomically(given(self._run_dir, member.name, member.serial), json.dumps(environ).encode())
        except OSError as error:  # a full disk
            return self._end(job, "its job cannot be submitted: %s" % error)
        output = os.path.join(self._run_dir, "nodes", member.name, "companion.%d.out" % member.serial)
        code, out, words = self._run(
            "sbatch", "--parsable", "--job-name=" + self._wish["name"], "--output=" + output.replace("%", "%%"), "--open-mode=append", "--chdir=" + self._run_dir,
            "--no-requeue", *self._of_one_node(member), self._wish["scripts"][member.group["name"]], self._run_dir, member.name, str(member.serial))
        if code == 0:
            job["id"] = out.strip().split(";")[0]
        else:  # the answer may be lost, and the job be there all the same
            job["id"] = next((number for number, state, *_ in self._listed() or [] if number not in self._known and state not in ENDING), "")
        if not job["id"] and member.name == GANG and any(text in words for text in commands.NO_ANSWER):
            job.update(words=words, again=(environ, time.monotonic() + SLOW))
            return self._bell.ring()
        if not job["id"]:
            return self._end(job, words or "sbatch ended with code %d" % code)
        job["again"] = None
        self._known.add(job["id"])
        self._log("node %s is job %s" % (member.name, job["id"]))
        if self._closed or self._jobs.get(member.name) is not job:  # meanwhile all were ended
            self._run("scancel", job["id"])

    def _of_one_node(self, member):
        """Further options of a companion; the gang's script has its own."""
        return [] if member.name == GANG else ["--comment=rayctl node " + member.name] + self._time()

    def _time(self):
        """A companion needs no more time than the cluster has. A job without a limit ends for Slurm after 365 days: no partition need allow that."""
        start, end = (float(os.environ.get("SLURM_JOB_%s_TIME" % name) or 0) for name in ("START", "END"))
        left = end - time.time()
        return ["--time=%d" % max(1, left / 60)] if left > 0 and end - start < 365 * 86400 else []

    def _cancel(self, member):
        job = self._jobs.get(member.name)
        if not job or job["member"] is not member or not job["id"]:
            return
        state = next((state for number, state, *_ in self._listed() or [] if number == job["id"]), "")
        if state in ENDING:  # Ray has seen its end before us
            member.released = False
            return self._end(job, "its job %s ended (%s)" % (job["id"], state))
        self._run("scancel", job["id"])

    def _look(self):
        """Looks at all jobs; returns whether something is new."""
        if not self._jobs or self._closed:
            return False
        listed = self._listed()
        if listed is None:
            return False
        states, new = {number: row for number, *row in listed}, False
        ours = {job["id"] for job in list(self._jobs.values())}
        strays = [number for number, (state, *_) in states.items() if number not in ours and state not in ENDING]
        if strays:  # sbatch had no answer, or scancel did not succeed
            self._run("scancel", *strays)
        for job in list(self._jobs.values()):
            if not job["id"]:
                if job["again"] and time.monotonic() > job["again"][1]:
                    self._submit(job["member"], job["again"][0])
                continue
            state, reason, starts = states.get(job["id"], ("", "", 0.0))
            missing = job["missing"] = (job.get("missing") or time.monotonic()) if not state else None
            if missing and time.monotonic() < missing + BELIEVE:
                new = True
                continue
            ends = job["ends"] = (job["ends"] or time.monotonic()) if state == "COMPLETING" and job["member"].name == GANG else None
            if ends and time.monotonic() < ends + SETTLES:
                new = True
                continue
            if (state, reason, starts) == (job["state"], job["reason"], job["starts"]):
                continue
            new = True
            if not state or state in ENDING:
                job["state"] = state
                self._end(job, "its job %s ended%s" % (job["id"], " (%s)" % state if state else ""))
            else:
                job.update(state=state, reason=reason, starts=starts)
                self._bell.ring()
        return new

    def _listed(self):
        """[(job id, state, reason, expected start)] of our jobs; None: not known. A heterogeneous job is as its worst component: of one whose node fails Slurm (24.11)
        ends that component alone."""
        rows, jobs = self._rows(), {}
        for number, *row in rows or []:
            jobs.setdefault(number.partition("+")[0], []).append(row)
        return None if rows is None else [(number, *min(parts, key=lambda p: (p[0] not in ENDING, p[0] != "PENDING", p[1] == "None"))) for number, parts in jobs.items()]

    def _rows(self):
        """The same of each component, whose id is that of the job, + and a number."""
        code, out, _ = self._run("squeue", "--me", "--states=all", "--noheader", "--name=" + self._wish["name"], "--format=%i|%T|%S|%r")
        rows = [line.strip().split("|", 3) for line in out.splitlines() if line.count("|") >= 3]
        return None if code else [(number, state, reason, planned(starts) if state == "PENDING" else 0.0) for number, state, starts, reason in rows]

    def _end(self, job, message):
        member = job["member"]
        if os.path.exists(given(self._run_dir, member.name, member.serial)):
            os.unlink(given(self._run_dir, member.name, member.serial))  # a job of which we do not know ends without it
        if self._jobs.get(member.name) is not job:
            return  # all were ended meanwhile
        member.message, member.ending = message, (job["state"] or "UNKNOWN") if job["id"] else ""
        self._jobs.pop(member.name, None)
        self._ended.append((member.name, 1))
        self._bell.ring()

    def _run(self, *argv):
        """Exit code, output and last words of a command."""
        environ = {k: v for k, v in commands.environment().items() if k in KEPT or not k.startswith(OURS)}
        if argv[0] == "squeue":
            environ["SLURM_TIME_FORMAT"] = "%s"
        try:
            ran = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, "", "%s: %s" % (argv[0], error)
        words = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return ran.returncode, ran.stdout.decode("utf-8", "replace"), words[-1] if words else ""


def planned(text):
    """The start that Slurm plans for a job, 0.0 if it has no plan."""
    starts = float(text) if text.isdigit() else 0.0
    return starts if time.time() < starts < time.time() + FAR else 0.0
