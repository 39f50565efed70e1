"""Slurm's commands with which a job queries and changes itself."""

import os
import re
import select
import signal
import subprocess
import sys
import time

# Variables that change the output of Slurm's commands: a user's own settings, which a prolog or BASH_ENV may set, and those of a job from which ours
# was submitted.
MISLEADING = re.compile(r"^(SQUEUE|SCANCEL|SCONTROL|SBATCH|SALLOC|SRUN)_|^SLURM_(CLUSTERS|TIME_FORMAT)$")

TIMES = {"SLURM_TIME_FORMAT": "%s"}  # as epoch seconds
# Parts of the messages on stderr when the controller did not answer, as in slurm/controller/commands.go.
NO_ANSWER = ("Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted", "Connection refused", "Connection timed out",
             "temporarily unable")
PATIENCE = 60.0  # seconds for a controller that is away, see insist: as long as the keeper has after its driver's grace (slurm/script/script.go, EndSlack)
PAUSE = 1.0  # seconds between two tries
# The launch's nonce if the cluster runs in an existing allocation (slurm.job: current): only steps with the nonce in their name are rayctl's.
INSIDE = "RAYCTL_INSIDE"
# The variables of a step's environment that srun may use in such a job. The others describe the size of that step, to which srun would limit the next step.
OF_THE_JOB = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_SACK_SOCKET", "SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME")
# sbatch's variables for the size of its tasks: srun would hold all components of a job to the first one's, or refuse (26.05). The step takes all.
OF_ITS_TASKS = ("SLURM_CPUS_PER_TASK", "SLURM_TRES_PER_TASK")
# In a heterogeneous job also how many tasks the first component has: srun (24.11 on) would start no more in any other.
OF_FIRST_COMPONENT = ("SLURM_NTASKS", "SLURM_NPROCS")


def inside():
    """The launch's nonce if the cluster runs in an existing allocation, which rayctl must not change; "" if rayctl submitted the job."""
    return os.environ.get(INSIDE, "")


def forget_step():
    """Removes the variables that Slurm has set for the keeper's own step in an existing allocation."""
    for name in list(os.environ):
        if re.match("SLURMD?_|SRUN_|SBATCH_|SALLOC_|PMIX?_", name) and name not in OF_THE_JOB:
            del os.environ[name]


def steps():
    """The ids of the step with Ray's nodes in an existing allocation."""
    listed = ask("squeue", "--noheader", "--steps", "--format=%i|%j", "--jobs=" + os.environ["SLURM_JOB_ID"]) or ""
    return [line.split("|")[0].strip() for line in listed.splitlines() if line.strip().endswith("|ray-" + inside())]


def environment():
    """The environment for Slurm's commands; they print times as epoch seconds."""
    return dict({name: value for name, value in os.environ.items() if not MISLEADING.match(name)}, **TIMES)


def call(*argv, **how):
    """Runs a command and returns whether it succeeded. Its stderr goes to the job's output."""
    return subprocess.call(argv, env=environment(), stdout=subprocess.DEVNULL, **how) == 0


def ask(*argv):
    """Runs a command and returns its stdout; None if it failed."""
    asked = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, check=False)
    return None if asked.returncode else asked.stdout.decode("utf-8", "replace")


def requeue(stands=lambda: True):
    """Requeues this job for its next attempt, as long as stands() says that it is to be; returns whether Slurm accepted that. Slurm then ends all processes of the job, this command among them, at times before it
    has the answer: it ignores SIGTERM, and has until SIGKILL (KillWait) to get it."""
    job = os.environ["SLURM_JOB_ID"]
    if inside():
        return False
    update = insist("scontrol", "update", "JobId=" + job, "Requeue=1", stands=stands)  # see run_once
    return update and insist("scontrol", "requeue", job, stands=stands, preexec_fn=ignore_sigterm)


def insist(*argv, stands=lambda: True, **how):
    """Like call, and again for PATIENCE seconds while the controller does not answer: it may be restarted at any moment. Not once stands() is false."""
    until = time.monotonic() + PATIENCE
    while stands():
        done = subprocess.run(argv, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, **how)
        words = done.stderr.decode("utf-8", "replace")
        sys.stderr.write(words)
        if done.returncode == 0 or not unanswered(words) or time.monotonic() > until:
            return done.returncode == 0
        select.select([], [], [], PAUSE)
    return False


def unanswered(words):
    """Whether a command of Slurm's that wrote this did not reach the controller."""
    return any(text in words for text in NO_ANSWER)


def ignore_sigterm():
    """In a child that is about to be the command."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def run_once():
    """Makes Slurm end the job, instead of requeuing it, when a node fails: otherwise the job might be queued for days, only to find that no attempt is left. Slurm
    has one setting for failed nodes and preemptions, so this is done only at sites without preemption. It is not done for heterogeneous jobs, whose other
    components would continue."""
    if not inside() and not os.environ.get("SLURM_HET_SIZE") and not preempts():
        call("scontrol", "update", "JobId=" + os.environ["SLURM_JOB_ID"], "Requeue=0")


def preempts():
    """Returns whether Slurm preempts jobs, by its configuration."""
    found = re.search(r"^PreemptType\s*=\s*(\S+)", ask("scontrol", "show", "config") or "", re.MULTILINE)
    return not found or found.group(1) not in ("preempt/none", "(null)")
