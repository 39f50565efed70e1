"""Slurm's commands, by which a job asks about itself and acts on itself."""

import os
import re
import subprocess

# What changes answers: settings of the user's for his own commands, which a prolog or BASH_ENV may bring, and of a job that ours was submitted from.
MISLEADING = re.compile(r"^(SQUEUE|SCANCEL|SCONTROL|SBATCH|SALLOC|SRUN)_|^SLURM_(CLUSTERS|TIME_FORMAT)$")

TIMES = {"SLURM_TIME_FORMAT": "%s"}  # as epoch seconds
# What commands write on stderr when the controller did not answer, as in slurm/controller/commands.go.
NO_ANSWER = ("Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted", "Connection refused", "Connection timed out",
             "temporarily unable")
INSIDE = "RAYCTL_INSIDE"  # the launch's nonce, where the job is somebody else's allocation: only the steps that are named by it are ours
# What srun may take from a step's own environment in such a job. All else is the size of that step, to which it would hold the next one.
OF_THE_JOB = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_SACK_SOCKET", "SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME")


def inside():
    """The launch's nonce where the job is somebody else's and must not be touched; "" where it is ours."""
    return os.environ.get(INSIDE, "")


def forget_step():
    """Removes what Slurm has set for the keeper's own step in somebody else's job."""
    for name in list(os.environ):
        if re.match("SLURMD?_|SRUN_|SBATCH_|SALLOC_|PMIX?_", name) and name not in OF_THE_JOB:
            del os.environ[name]


def steps():
    """The ids of our nodes' step in somebody else's job."""
    listed = ask("squeue", "--noheader", "--steps", "--format=%i|%j", "--jobs=" + os.environ["SLURM_JOB_ID"]) or ""
    return [line.split("|")[0].strip() for line in listed.splitlines() if line.strip().endswith("|ray-" + inside())]


def environment():
    """The job's environment for a question, with times as numbers."""
    return dict({name: value for name, value in os.environ.items() if not MISLEADING.match(name)}, **TIMES)


def call(*argv, **how):
    """Whether a command succeeded. What it complains of goes to the job's output."""
    return subprocess.call(argv, env=environment(), stdout=subprocess.DEVNULL, **how) == 0


def ask(*argv):
    """What a command says; None if it failed."""
    asked = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, check=False)
    return None if asked.returncode else asked.stdout.decode("utf-8", "replace")


def requeue():
    """Asks for the next attempt of this job; whether Slurm accepted it."""
    job = os.environ["SLURM_JOB_ID"]
    if inside():
        return False
    return call("scontrol", "update", "JobId=" + job, "Requeue=1") and call("scontrol", "requeue", job)  # see run_once


def run_once():
    """Lets the failure of a node be the job's end: Slurm would queue it again, for days perhaps, only to be told that no attempt is left. It cannot be told to do
    so for preemptions alone, so that is for sites without them; nor of a part of a heterogeneous job, of which the other parts would go on."""
    if not inside() and not os.environ.get("SLURM_HET_SIZE") and not preempts():
        call("scontrol", "update", "JobId=" + os.environ["SLURM_JOB_ID"], "Requeue=0")


def preempts():
    """Whether this Slurm preempts jobs, as far as it says."""
    found = re.search(r"^PreemptType\s*=\s*(\S+)", ask("scontrol", "show", "config") or "", re.MULTILINE)
    return not found or found.group(1) not in ("preempt/none", "(null)")
