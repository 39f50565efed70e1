"""The companion jobs of a cluster, one for each node that Ray's autoscaler asked for: how the keeper submits them, looks at them and cancels them."""

import json
import os
import queue
import subprocess
import threading
import time

from rayctl_keeper.slurm import commands
from rayctl_keeper.state.document import write_atomically

QUICK, SLOW, SLOWER = 2.0, 30.0, 1.5  # seconds between looks at jobs after a change, at most, and how that grows
PATIENCE = 60.0  # seconds for one of Slurm's commands: the controller may be busy
AT_THE_END = 10.0
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
        self._ended = []  # [(node name, exit code)], not yet taken
        self._closed = False

    # For the keeper's thread.

    def submit(self, member, environ):
        """Asks for a node."""
        self._jobs[member.name] = {"member": member, "id": "", "state": "PENDING", "reason": ""}
        self._tasks.put((self._submit, member, environ))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="companions")
            self._thread.start()

    def cancel(self, member):
        """Gives a node up."""
        self._tasks.put((self._cancel, member))

    def ended(self):
        """The nodes whose jobs have ended since it was last asked."""
        found, self._ended = self._ended, []
        return found

    def standing(self, member):
        """Whether the node is queued or granted, and Slurm's reason."""
        job = self._jobs.get(member.name)
        if job is None or job["state"] != "PENDING":
            return "granted", "" if job is None else "job " + job["id"]
        return "queued", "job %s: %s" % (job["id"], job["reason"]) if job["id"] else "being submitted"

    def end(self):
        """Cancels all, at the end."""
        self._closed = True
        if self._jobs or self._thread:
            end_all(self._orders)
        self._jobs = {}

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
        os.makedirs(os.path.dirname(given(self._run_dir, member.name, member.serial)), mode=0o700, exist_ok=True)
        write_atomically(given(self._run_dir, member.name, member.serial), json.dumps(environ).encode())
        output = os.path.join(self._run_dir, "nodes", member.name, "companion.%d.out" % member.serial)
        known = {j["id"] for j in self._jobs.values()}
        code, out, words = self._run(
            "sbatch", "--parsable", "--job-name=" + self._wish["name"], "--comment=rayctl node " + member.name, "--output=" + output.replace("%", "%%"),
            "--open-mode=append", "--chdir=" + self._run_dir, "--no-requeue", *self._time(), self._wish["scripts"][member.group["name"]],
            self._run_dir, member.name, str(member.serial))
        if code == 0:
            job["id"] = out.strip().split(";")[0]
        else:  # the answer may be lost, and the job be there all the same
            job["id"] = next((number for number, _, _ in self._listed() or [] if number not in known), "")
        if not job["id"]:
            return self._end(member, words or "sbatch ended with code %d" % code)
        self._log("node %s is job %s" % (member.name, job["id"]))
        if self._closed:  # meanwhile
            end_all(self._orders)

    def _time(self):
        """A companion needs no more time than the cluster has."""
        left = float(os.environ.get("SLURM_JOB_END_TIME") or 0) - time.time()
        return ["--time=%d" % max(1, left / 60)] if 0 < left < 366 * 86400 else []

    def _cancel(self, member):
        job = self._jobs.get(member.name)
        if job and job["member"] is member and job["id"]:
            self._run("scancel", job["id"])

    def _look(self):
        """Looks at all jobs; returns whether something is new."""
        if not self._jobs or self._closed:
            return False
        listed = self._listed()
        if listed is None:
            return False
        states, new = {number: (state, reason) for number, state, reason in listed}, False
        for job in list(self._jobs.values()):
            state, reason = states.get(job["id"], ("", ""))
            if not job["id"] or (state, reason) == (job["state"], job["reason"]):
                continue
            new = True
            if state in ("", "COMPLETING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"):
                self._end(job["member"], "its job %s ended%s" % (job["id"], " (%s)" % state if state else ""))
            else:
                job.update(state=state, reason=reason)
                self._bell.ring()
        return new

    def _listed(self):
        """[(job id, state, reason)] of our jobs; None: not known."""
        code, out, _ = self._run("squeue", "--noheader", "--name=" + self._wish["name"], "--format=%i|%T|%r")
        return None if code else [tuple(line.strip().split("|", 2)) for line in out.splitlines() if line.count("|") >= 2]

    def _end(self, member, message):
        member.message = message
        self._jobs.pop(member.name, None)
        self._ended.append((member.name, 1))
        self._bell.ring()

    def _run(self, *argv):
        """Exit code, output and last words of a command."""
        environ = {k: v for k, v in commands.environment().items() if k in KEPT or not k.startswith(OURS)}
        try:
            ran = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, "", "%s: %s" % (argv[0], error)
        words = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return ran.returncode, ran.stdout.decode("utf-8", "replace"), words[-1] if words else ""
