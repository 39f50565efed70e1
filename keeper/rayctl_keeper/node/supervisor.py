"""The supervisor of one Ray node: `keeper.pyz node RUN_DIR NAME`, or `keeper.pyz node RUN_DIR --slurm` as a task of a Slurm step.

It starts `ray start --block` below it and takes everything down at once, with SIGKILL, when its keeper goes (end of file on stdin),
on a signal, or when Ray gives up. Asking Ray to stop takes half a minute. Two guards do the same if the supervisor itself is killed: a
forked one, and guard.py between it and Ray. It reports its state in a file, or in a step by lines on its output, which Slurm
carries to the keeper: a file for each node on a shared file system costs more, the more nodes there are. See docs/keeper.md.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys

from rayctl_keeper import program
from rayctl_keeper.host import address, process
from rayctl_keeper.node import guard
from rayctl_keeper.node.files import joblogs, left, nodedir, nodelogs, scratch
from rayctl_keeper.node.files.rest import drain, save_rest
from rayctl_keeper.node.gpus import measuring
from rayctl_keeper.node.groups import members
from rayctl_keeper.node.headwatch import HeadWatch, NotReached
from rayctl_keeper.node.start import raystart
from rayctl_keeper.node.start.nodeports import Ports
from rayctl_keeper.state.document import wall, write_from_reserve
from rayctl_keeper.state.model import Cause

WORKER_TRIES = 3
OF_THE_GANG = "--slurm-gang"  # in the place of "--slurm", in the job of an early head's gang: the nodes after the head
LEAVES = "leaves.%d"  # by the serial: the file announces that the node is going to be taken away (slurm/companions/companion.py)
# Slurm signals the processes of a step one after the other (slurmstepd, _handle_signal_container): Ray may die of the end's signal before we have it.
SIGNAL_LATE = 2.0  # seconds
# Slurm carries lines of less than MAX_MSG_LEN, 1024 bytes, whole; longer ones may come mixed with other tasks' output (src/common/io_hdr.h,
# _task_build_message in slurmstepd/io.c).
REPORT_LINE_LIMIT = 1000
FINE = (Cause.SUCCEEDED, Cause.DOWN, Cause.IDLE)  # causes of an end that need no explanation
# The setup is sourced, so that `ulimit` and `export` in it reach Ray; the empty file shows that it ran to its end.
SETUP = 'set -e; . "$1"; set +e; : > "$2"; shift 2; exec "$@"'


class Supervisor:
    """One node's life."""

    def __init__(self, run_dir, name, in_step):
        self.run_dir = os.path.abspath(run_dir)
        with open(os.path.join(run_dir, "orders.json")) as f:
            self.orders = json.load(f)
        own_job = name.partition("=")[2]  # whose name it is: a companion job has one node
        in_gang = name == OF_THE_GANG
        self.member = members.members(self.orders)[int(os.environ["SLURM_PROCID"]) + in_gang] if in_step and not own_job else \
            members.named(self.orders, own_job or name)
        self.head = HeadWatch(os.environ["RAYCTL_GCS"]) if own_job or in_gang else None
        self.by_line = in_step and not own_job  # how it reports
        self.place = os.path.join(self.run_dir, "nodes", self.member.name)
        self.round = int(os.environ.get("RAYCTL_ROUND", "0"))  # counts restarts of the whole cluster
        self.bell = process.Bell()
        self.in_step = in_step
        self.watch = [] if in_step else [0]
        self.gpus = None  # what measures them
        self.directory = self.lock = self.marker = self.guard = self.lifeline = self.ports = None
        self.last_failure = ""  # of an earlier try
        self.unreached = False  # the head is, from here
        self.tries = 0
        self.serial = int(os.environ.get("RAYCTL_SERIAL") or 0)  # of a node that Ray's autoscaler asked for

    def run(self):
        """Returns the exit code: 0 when asked to end, 1 when Ray or the setup failed."""
        process.become_subreaper()
        self.bell.catch(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
        tries = 1 if self.member.head else WORKER_TRIES
        for attempt in range(tries):
            self.tries = attempt
            try:
                message = self.live()
            except OSError as error:
                self.unreached = isinstance(error, NotReached)
                message, tries = "node %s: %s" % (self.member.name, error), 1
            finally:
                self.clean()
            if message is None:
                self.report("ended", "")
                return 0
            self.last_failure = message
            retry = attempt + 1 < tries and not self.setup_failed and not self.leaves()
            self.report("retrying" if retry else "failed", message)
            if not retry:
                break
        return 1

    def live(self):
        """One start of Ray; returns None when asked to end, else why Ray ended."""
        self.setup_failed = False
        if self.head and not (self.head.lives() if self.tries else self.head.reach(self.bell)):
            return None
        self.make_directory()
        self.report("starting", self.last_failure)
        child = self.start()
        left.remove_beside(self.directory, nodedir.remove)
        code = None
        while code is None:
            ready = self.bell.wait(None, self.watch + (self.gpus.fds() if self.gpus else []) + (self.head.fds() if self.head else []))
            report = self.gpus.take(ready) if self.gpus else None
            if report:
                self.measured(report)
            code = process.reap().get(child)
            if self.bell.signals or (0 in ready and not os.read(0, 4096)) or self.head and not self.head.lives(ready):
                return None
        if self.in_step and self.asked_soon():
            return None
        return self.failure(code)

    def leaves(self):
        """Whether the node is going to be taken away: Ray has left it before."""
        path = os.path.join(self.place, LEAVES % self.serial)
        return os.path.exists(path) and os.path.getsize(path) > 0

    def asked_soon(self):
        """Whether the step is being ended: all of its processes get the signal, and Ray's may have been first."""
        until = process.time.monotonic() + SIGNAL_LATE
        while not self.bell.signals and process.time.monotonic() < until:
            self.bell.wait(until - process.time.monotonic())
        return bool(self.bell.signals)

    def make_directory(self):
        """A fresh directory that only we may enter, and a guard for it."""
        root = self.orders["ray"].get("tempRoot") or "/tmp"
        if self.in_step and scratch.VARIABLES.search(root):
            root = scratch.expanded(root, os.environ)
            scratch.make(root)
        self.directory = nodedir.make(root)
        self.lock = nodedir.lock(self.directory)
        self.marker = guard.mark(self.directory)
        self.guard = guard.Forked(self.directory)
        if self.member.group.get("objectSpillingDirectory"):
            nodedir.spill_into(self.directory, self.member.group["objectSpillingDirectory"])

    def start(self):
        """Starts Ray in a session of its own; returns the pid."""
        secrets = {}
        path = os.path.join(self.run_dir, "secrets.json")
        if os.path.exists(path):
            with open(path) as f:
                secrets = json.load(f)
        base = dict(os.environ, RAYCTL_NODE_IP=self.address())
        base[raystart.INSTANCE] = members.instance(self.member.name, self.round, self.serial, self.tries)
        self.ports = self.ports or Ports(self.orders, self.member, base)
        command = raystart.arguments(self.orders, self.member, self.directory, self.run_dir, base, self.ports.choose())
        env = raystart.environment(self.orders, self.member, self.directory, self.run_dir, secrets, dict(base, **self.ports.variables()))
        setup = self.orders["ray"].get("setup")
        self.setup_done = os.path.join(self.directory, "setup.done")
        if setup:
            script = os.path.join(self.directory, "setup.sh")
            with open(script, "w") as f:
                f.write(setup + "\n")
            command = ["bash", "-c", SETUP, "setup", script, self.setup_done] + command
        command = [sys.executable, "-S", "-E"] + program.command("guard", self.directory, *command)
        reader, self.lifeline = os.pipe()
        try:
            with open(os.path.join(self.directory, "start.log"), "wb") as out, users_umask():
                child = subprocess.Popen(command, stdin=reader, stdout=out, stderr=subprocess.STDOUT,
                                         env=env, cwd=working_directory(self.orders), start_new_session=True)
        finally:
            os.close(reader)
        self.child = child  # kept: Popen would otherwise collect the exit code itself
        if self.member.group.get("gpus"):
            self.gpus = measuring.Measuring(self.orders, self.member, self.directory, env)
        return child.pid

    def measured(self, report):
        """Publishes what the node's GPUs do."""
        report = {"name": self.member.name, "round": self.round, "serial": self.serial, "gpus": report}
        if not self.in_step or self.head:
            measuring.publish(self.place, report)
            return
        try:
            os.write(1, json.dumps(report).encode() + b"\n")
        except OSError:
            pass

    def address(self):
        """This node's; the head's is the keeper's, and that of all nodes where they are on one machine."""
        if self.member.head or not self.in_step:
            return os.environ["RAYCTL_NODE_IP"]
        return address.own(self.orders.get("network") or "", True, os.environ["RAYCTL_NODE_IP"])

    def failure(self, code):
        """One sentence on why Ray ended, with the most informative line of its own output."""
        line = nodelogs.last_line(os.path.join(self.directory, "start.log"))
        self.setup_failed = bool(self.orders["ray"].get("setup")) and not os.path.exists(self.setup_done)
        what = "setup" if self.setup_failed else "ray start"
        shortage = "" if self.setup_failed else nodedir.shortage(self.directory)
        if shortage:
            line = shortage
        how = "was ended by signal %d" % -code if code < 0 else "exited with code %d" % code
        return "%s on node %s %s%s" % (what, self.member.name, how, ": " + line if line else "")

    def clean(self):
        """Ends all processes of the node, saves logs, removes the directory."""
        if self.directory is None:
            return
        if self.gpus:
            self.gpus.close()
            self.gpus = None
        spare = [self.guard.pid] if self.guard else []
        drain([self.marker], spare)
        left, _ = process.kill_all([self.marker], spare)
        if left:
            self.report("failed", "processes %s of node %s cannot be killed" % (sorted(left), self.member.name))
        try:
            save_rest(self.run_dir, self.directory, self.place)
        except OSError as error:
            self.report("ended", "the rest of the driver's output cannot be saved: %s" % error)
        for save in self.save_jobs, self.save_logs:
            try:
                save()
            except OSError:
                pass  # a full disk must not keep the node
        nodedir.remove(self.directory)
        if self.lock is not None:
            os.close(self.lock)
        if self.lifeline is not None:
            os.close(self.lifeline)
        if self.guard:
            self.guard.dismiss()
        self.directory = self.lock = self.guard = self.lifeline = None

    def save_jobs(self):
        """The output of jobs that others than the keeper submitted."""
        ours = (self.orders.get("job") or {}).get("submissionPrefix") or self.orders["name"]
        joblogs.save(self.directory, os.path.join(self.run_dir, joblogs.DIRECTORY), ours, *joblogs.bounds(self.orders))

    def save_logs(self):
        """Ray's logs."""
        if self.logs_wanted():
            nodelogs.save(self.directory, self.place)

    def logs_wanted(self):
        """Whether Ray's logs of this node are to be saved; by default, and if it is not known how the cluster ends, they are."""
        wanted = self.orders["ray"].get("nodeLogs") or "always"
        if wanted != "onFailure":
            return wanted == "always"
        try:
            with open(os.path.join(self.run_dir, "state.json")) as f:
                return json.load(f)["reason"]["code"] not in FINE
        except (OSError, ValueError):
            return True

    def report(self, state, message):
        """Publishes the state for the keeper, and for the cleanup after a local keeper that was killed."""
        report = {"state": state, "message": message, "at": wall(), "pid": os.getpid(), "host": os.uname().nodename,
                  "directory": self.directory or "", "round": self.round, "try": self.tries, "serial": self.serial}
        if self.unreached:
            report["unreached"] = True
        try:
            if self.by_line:
                os.write(1, report_line(dict(report, name=self.member.name)))
            else:
                write_from_reserve(self.run_dir, os.path.join(self.place, "report.json"), json.dumps(report).encode())
        except OSError:
            pass


def working_directory(orders):
    """Where drivers and workers without a package run."""
    for path in ((orders.get("job") or {}).get("cwd"), os.path.expanduser("~")):
        if path and os.path.isdir(path):
            return path
    return "/"


@contextlib.contextmanager
def users_umask():
    """The user's own umask for a child: others may be meant to read what a driver writes. Ray's own files are in a directory that nobody else may enter."""
    ours = os.umask(int(os.environ.get(raystart.UMASK) or "077", 8))
    try:
        yield
    finally:
        os.umask(ours)


def report_line(report):
    """The report as a line that comes whole; the end of a long message is left out."""
    while True:
        line = json.dumps(report, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        if len(line) <= REPORT_LINE_LIMIT or not report["message"]:
            return line
        report = dict(report, message=report["message"][:len(report["message"]) * 4 // 5])


def main(arguments):
    """Entry point; the exit code."""
    run_dir, name = arguments
    return Supervisor(run_dir, name, in_step=name.startswith("--slurm")).run()
