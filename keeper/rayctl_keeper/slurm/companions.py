"""The companion jobs of a cluster, one for each node that Ray's autoscaler asked for, and that of an early head's gang: how the keeper submits them, looks at
them and cancels them."""

import json
import os
import queue
import subprocess
import threading
import time

from rayctl_keeper.host import process
from rayctl_keeper.node.members import GANG
from rayctl_keeper.node.supervisor import LEAVES
from rayctl_keeper.slurm import commands, hopeless, listing, reasons
from rayctl_keeper.slurm.listing import FAR, NONE, moment, waits
from rayctl_keeper.state.document import write_atomically

OPEN = 1.0  # seconds between looks at what a running job says
QUICK, SLOW, SLOWER = 2.0, 30.0, 1.5  # seconds between looks at jobs after a change, at most, and how that grows
WARNING = 60  # seconds before the end of its job that a node is drained
PATIENCE = 60.0  # seconds for one of Slurm's commands: the controller may be busy
AT_THE_END, UNDER_WAY, LOOK = 10.0, 3.0, 0.3
LEAD = 60.0  # seconds, and the grace, before the end of a job by its time limit in which its node is drained; longer than between two looks
LAST = 5.0  # of these, for the job's end
SETTLES = 8.0  # seconds in which a job that is COMPLETING shows why it ended, as its next state
BELIEVE = 12.0  # a controller that was restarted recovers jobs from their nodes (slurm/batchjob/fate.go)
ENDING = ("COMPLETING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "REVOKED")
# Of the job that we are in: sbatch would take them for settings of the new one, or pass them on to it.
OURS = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI", "RAYCTL_")
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_SACK_SOCKET")


def given(place, name, serial):
    """The file with what the node's supervisor is told in its environment."""
    return os.path.join(place, "nodes", name, "companion.%s.json" % serial)


def leaves(place, name, serial):
    """The file that the node's job fills with the moment of its end when Slurm warns it. It is there before: on a network file system a new one may be
    seen late, and what is opened is as it is."""
    return os.path.join(place, "nodes", name, LEAVES % int(serial))


def end_all(orders, limit=AT_THE_END):
    """Cancels all companion jobs of the cluster, also those of whose submission there was no answer."""
    wish = (orders.get("start") or {}).get("companions")
    if wish:
        try:
            commands.call("scancel", "--name=" + wish["name"], timeout=limit)
        except subprocess.TimeoutExpired:
            pass  # they end by themselves: companion.py, node/headwatch.py


def refused(words):
    """sbatch's refusal, with what to do where it may be this node that is refused."""
    if not hopeless.refused_here(words):
        return words
    return "%s may not submit its job (%s): nodes of elastic groups, and gangs of early heads, are jobs that compute nodes submit; ask your site's administrators, `rayctl doctor` tries it" % (
        os.environ.get("SLURMD_NODENAME") or os.uname().nodename, words)


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
        self._jobs[member.name] = {"member": member, "id": "", "state": "PENDING", "reason": "", "start": 0.0, "words": "", "again": None, "ends": None}
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
        """Whether the node is queued or granted, Slurm's reason, and when Slurm expects to start it; None: its job has ended."""
        job = self._jobs.get(member.name)
        if job is None:
            return None
        if job["state"] != "PENDING":
            return "granted", job["drain"][1] if job.get("drain") else "job %s" % job["id"], None
        return ("queued",) + waits(job) if job["id"] else ("queued", "being submitted", None)

    def drain(self, member):
        """The moment by which the node must be empty, in epoch seconds, and why, when that is near and the cluster goes on: its job ends by its time limit, or
        Slurm has warned it, whichever is seen first: Slurm's signal comes up to a minute before it is due (sbatch(1), --signal). Else None."""
        job = self._jobs.get(member.name)
        if not job or job["member"] is not member:
            return None
        if job["state"] != "PENDING" and not job.get("drain") and not job.get("warned") and time.monotonic() >= job.get("opened", 0.0) + OPEN:
            job["opened"], job["warned"] = time.monotonic(), self._warned(member)
            if job["warned"]:
                self._tasks.put((self._warn, job))
        return job.get("drain")

    def _warned(self, member):
        """The end of the node's job where Slurm has warned it; None: it has not."""
        try:
            with open(leaves(self._run_dir, member.name, member.serial)) as f:
                end = f.read()
        except OSError:
            return None
        return float(end) if end.endswith("\n") else None

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
        return listing.explained(job)

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
            if all(job.state in ENDING and job.state != "COMPLETING" for job in self._rows() or []):
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
            write_atomically(leaves(self._run_dir, member.name, member.serial), b"")
        except OSError as error:  # a full disk
            return self._end(job, "its job cannot be submitted: %s" % error)
        output = os.path.join(self._run_dir, "nodes", member.name, "companion.%d.out" % member.serial)
        code, out, words = self._run(
            "sbatch", "--parsable", "--job-name=" + self._wish["name"], "--output=" + output.replace("%", "%%"), "--open-mode=append", "--chdir=" + self._run_dir,
            "--no-requeue", *self._of_one_node(member), self._wish["scripts"][member.group["name"]], self._run_dir, member.name, str(member.serial))
        job["id"] = out.strip().split(";")[0] if code == 0 else ""
        if not job["id"]:  # the answer may be lost, and the job be there all the same
            job["id"] = self._unanswered(words)
        if not job["id"] and member.name == GANG and any(text in words for text in commands.NO_ANSWER):
            job.update(words=words, again=(environ, time.monotonic() + SLOW))
            return self._bell.ring()
        if not job["id"]:
            member.hopeless = hopeless.refused_for_ever(words)
            return self._end(job, refused(words) or "sbatch ended with code %d" % code)
        job["again"] = None
        self._known.add(job["id"])
        self._log("node %s is job %s" % (member.name, job["id"]))
        if self._closed or self._jobs.get(member.name) is not job:  # meanwhile all were ended
            self._run("scancel", job["id"])

    def _of_one_node(self, member):
        """Further options of a companion; the gang's script has its own."""
        return [] if member.name == GANG else ["--comment=rayctl node " + member.name] + self._time(member.group["name"])

    def _unanswered(self, words):
        """The job of a submission that failed as far as sbatch says, "" if there is none. Where that is not certain, Slurm is asked until it answers."""
        until = time.monotonic() + PATIENCE
        while True:
            listed = self._listed()
            new = next((found.id for found in listed or [] if found.id not in self._known and found.state not in ENDING), "")
            if new or self._closed or listed is not None and words or time.monotonic() > until:
                return new
            until = min(until, time.monotonic() + BELIEVE) if listed is not None else until
            time.sleep(LOOK)

    def _time(self, group):
        """A companion needs no more time than the cluster has, and gets no more than its group's partition gives; it is warned before its end
        (companion.py). A job without a limit ends for Slurm after 365 days: no partition need allow that."""
        start, end = (float(os.environ.get("SLURM_JOB_%s_TIME" % name) or 0) for name in ("START", "END"))
        left, most = (end - time.time()) / 60, (self._wish.get("minutes") or {}).get(group)
        if left <= 0 or end - start >= 365 * 86400:
            return ["--signal=B:USR1@%d" % WARNING]  # its limit is as the script has it
        minutes = int(max(1, min(left, most or left)))
        return ["--time=%d" % minutes, "--signal=B:USR1@%d" % min(WARNING, 60 * minutes / 4)]

    def _cancel(self, member):
        job = self._jobs.get(member.name)
        if not job or job["member"] is not member or not job["id"]:
            return
        state = next((found.state for found in self._listed() or [] if found.id == job["id"]), "")
        if state in ENDING:  # Ray has seen its end before us
            member.released = job.get("cancelled", False)
            return self._end(job, "its job %s ended (%s)" % (job["id"], state))
        job["cancelled"] = True
        self._run("scancel", job["id"])

    def _look(self):
        """Looks at all jobs; returns whether something is new."""
        if not self._jobs or self._closed:
            return False
        listed = self._listed()
        if listed is None:
            return False
        found, new = {f.id: f for f in listed}, False
        ours = {job["id"] for job in list(self._jobs.values())}
        strays = [f.id for f in listed if f.id not in ours and f.state not in ENDING]
        if strays:  # sbatch had no answer, or scancel did not succeed
            self._run("scancel", *strays)
        for job in list(self._jobs.values()):
            if not job["id"]:
                if job["again"] and time.monotonic() > job["again"][1]:
                    self._submit(job["member"], job["again"][0])
                continue
            state, start, end, reason = found.get(job["id"], NONE)[1:]
            missing = job["missing"] = (job.get("missing") or time.monotonic()) if not state else None
            if missing and time.monotonic() < missing + BELIEVE:
                new = True
                continue
            ends = job["ends"] = (job["ends"] or time.monotonic()) if state == "COMPLETING" and job["member"].name == GANG else None
            if ends and time.monotonic() < ends + SETTLES:
                new = True
                continue
            before = job["state"], job["reason"]
            if not state or state in ENDING:
                job["ending"] = state  # not its state: it is told as granted by that
                job["member"].released = job.get("cancelled", False)  # Ray may just be giving up what has ended by itself
                self._end(job, "its job %s ended%s" % (job["id"], " (%s)" % state if state else ""))
            elif state == "PENDING" and job["member"].name != GANG and reasons.explain(reason)[2]:
                self._run("scancel", job["id"])
                job["member"].hopeless = True
                self._end(job, "Slurm can never start its job %s: %s" % (job["id"], reason))
            else:
                job.update(state=state, reason=reason, start=moment(start), drain=job.get("drain") or self._drain(job, state, start, end))
                self._bell.ring()
            new = new or (state, reason) != before
        return new

    def _drain(self, job, state, start, end):
        """What drain() says of a node whose job is near the end of its time, where it is not the cluster's end, too: `rayctl extend` and operators may
        have moved that."""
        begun, ends, now = moment(start), moment(end), time.time()
        if state != "RUNNING" or not ends or ends - begun > FAR or job["member"].name == GANG:
            return None
        lead = min(LEAD + float(self._orders.get("grace") or 0), (ends - begun) / 2)
        return self._emptied(job, ends, "drained before its time limit") if now >= ends - lead and self._goes_on(ends) else None

    def _warn(self, job):
        """Slurm has warned the job; where it does not say when the cluster ends, the node is drained."""
        if not job.get("drain") and self._goes_on(job["warned"]) is not False:
            job["drain"] = self._emptied(job, job["warned"], "drained after Slurm's warning")
            self._bell.ring()

    @staticmethod
    def _emptied(job, ends, why):
        """What drain() says of a job that ends then."""
        return max(time.time(), ends - LAST), "job %s: %s" % (job["id"], why)

    def _goes_on(self, then):
        """Whether the cluster's own end, with the keeper's warning of it, comes later; None: not known."""
        code, out, _ = self._run("squeue", "--noheader", "--format=%e", "--jobs=" + os.environ.get("SLURM_JOB_ID", ""))
        last = max([moment(text) for text in out.split()] + [0.0])
        return None if code else not last or last - float(self._orders["start"].get("warning") or 0) > then

    def _listed(self):
        """Our jobs, each as its worst component; None: not known."""
        rows = self._rows()
        return None if rows is None else listing.whole(rows, ENDING)

    def _rows(self):
        """The components of our jobs; None: not known."""
        code, out, _ = self._run("squeue", "--me", "--states=all", "--noheader", "--name=" + self._wish["name"], "--format=" + listing.FORMAT)
        return None if code else listing.rows(out)

    def _end(self, job, message):
        member = job["member"]
        if os.path.exists(given(self._run_dir, member.name, member.serial)):
            os.unlink(given(self._run_dir, member.name, member.serial))  # a job of which we do not know ends without it
        if self._jobs.get(member.name) is not job:
            return  # all were ended meanwhile
        member.message, member.died, member.ending = message, not member.released, (job.get("ending", job["state"]) or "UNKNOWN") if job["id"] else ""
        self._jobs.pop(member.name, None)
        self._ended.append((member.name, 1))
        self._bell.ring()

    def _run(self, *argv):
        """Exit code, output and last words of a command."""
        environ = {k: v for k, v in commands.environment().items() if k in KEPT or not k.startswith(OURS)}
        environ.update(commands.TIMES if argv[0] == "squeue" else {})
        try:
            code, out, err = process.run(argv, environ, PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, "", "%s: %s" % (argv[0], error)
        words = err.decode("utf-8", "replace").strip().splitlines()
        return code, out.decode("utf-8", "replace"), words[-1] if words else ""
