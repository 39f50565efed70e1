"""How jobs for nodes are submitted: one call of sbatch for all nodes of a group that are asked for at once, as a job array, whose elements are granted and end
each by itself. The number of an element is its node's place in the group."""

import json
import os

from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.node.supervisor import LEAVES
from rayctl_keeper.slurm.controller import hopeless
from rayctl_keeper.state.document import write_atomically


def given(place, name, serial):
    """The file with the environment variables for the node's supervisor."""
    return os.path.join(place, "nodes", name, "companion.%s.json" % serial)


def leaves(place, name, serial):
    """The file that the node's job fills with the moment of its end when Slurm warns it. It is there before: on a network file system a new one may be
    seen late, and what is opened is as it is."""
    return os.path.join(place, "nodes", name, LEAVES % int(serial))


def refused(words):
    """sbatch's refusal of a gang, with what to do where it may be this node that is refused."""
    if not hopeless.refused_here(words):
        return words
    return "%s may not submit its job (%s): ask your site's administrators to let compute nodes submit jobs, `rayctl doctor` tries it" % (
        os.environ.get("SLURMD_NODENAME") or os.uname().nodename, words)


class Job:
    """The job of one node, or of an early head's gang, as the keeper knows it."""

    def __init__(self, member, environ):
        self.member, self.environ = member, environ  # environment variables for its supervisor
        self.id = ""  # as squeue has it; that of an array's element is NUMBER_INDEX
        self.state, self.reason, self.start = "PENDING", "", 0.0  # Slurm's; the start is the planned one
        self.words = ""  # why it is not submitted yet
        self.again = None  # when it is submitted again
        self.missing = None  # since when Slurm does not list it
        self.completing = None  # since when a gang's job is COMPLETING
        self.ending = None  # Slurm's state at its end
        self.cancelled = False  # by us
        self.opened, self.warned = 0.0, None  # when Slurm's warning was looked for, and the end that it names and its cause
        self.drain = None  # the moment by which its node must be empty, and why


class Submission:
    """Jobs that are submitted by one call."""

    def __init__(self, run_dir, wish, jobs):
        self._run_dir, self._wish, self.jobs = run_dir, wish, jobs
        self._first = jobs[0].member

    def prepare(self):
        """Writes what the nodes' supervisors read. Raises OSError."""
        for job in self.jobs:
            name, serial = job.member.name, job.member.serial
            os.makedirs(os.path.dirname(given(self._run_dir, name, serial)), mode=0o700, exist_ok=True)
            write_atomically(given(self._run_dir, name, serial), json.dumps(job.environ).encode())
            write_atomically(leaves(self._run_dir, name, serial), b"")

    def argv(self, limits):
        """sbatch's arguments. limits are options for the time of the jobs."""
        group, name = self._first.group["name"], self._first.name
        directory = self._run_dir.replace("%", "%%"), "nodes", name if len(self.jobs) == 1 else group + "-%a"
        return ["--job-name=" + self._wish["name"], "--output=" + os.path.join(*directory, "companion.%d.out" % self._first.serial), "--open-mode=append",
                "--chdir=" + self._run_dir, "--no-requeue"] + self._of_nodes(limits) + [self._wish["scripts"][group], self._run_dir] + self._nodes()

    def _of_nodes(self, limits):
        if self._first.name == GANG:
            return []
        single = len(self.jobs) == 1
        options = [] if single else ["--array=" + ",".join(self._indexes())]
        if not self._wish.get("commented"):  # the script has the comment that the cluster file asks for
            options.insert(0, "--comment=rayctl " + ("node " + self._first.name if single else "nodes of " + self._first.group["name"]))
        return options + limits

    def _indexes(self):
        return ["%d" % job.member.ordinal for job in self.jobs]

    def _nodes(self):
        return [argument for job in self.jobs for argument in (job.member.name, str(job.member.serial))]

    def ids(self, number):
        """The jobs' ids where sbatch has answered with this number."""
        return [number] if len(self.jobs) == 1 else [number + "_" + index for index in self._indexes()]

    def number(self, ids):
        """The number of the job or array among these ids that may be this one; "" if there is none."""
        numbers = sorted({found.partition("_")[0] for found in ids}, key=int)
        return next((n for n in numbers if {found for found in ids if found.partition("_")[0] == n} <= set(self.ids(n))), "")


def own_node(nodes):
    """The name and the serial of the node that this job is for, of the arguments of its script."""
    pairs, index = list(zip(nodes[::2], nodes[1::2])), os.environ.get("SLURM_ARRAY_TASK_ID")
    return next(pair for pair in pairs if not index or pair[0].rpartition("-")[2] == index)
