"""Nodes that one step command starts, such as srun, and those with jobs of their own."""

import collections
import json
import os
import select
import signal
import subprocess
import threading

from rayctl_keeper.node import container
from rayctl_keeper.node.groups import members
from rayctl_keeper.run.nodes.common import RUNS, Nodes
from rayctl_keeper.run.nodes.gangjob import GangJob
from rayctl_keeper.state.exits import Detached

# Arguments of the orders that stand for what was not known when they were written.
RUN_DIR = "$RAYCTL_RUN_DIR"  # the attempt's directory
THIS_NODE = "$SLURMD_NODENAME"  # Slurm's name of the keeper's node
LAST_WORDS = 2.0  # seconds for the output of a step that has ended
ERROR = "srun: error: "  # how lines begin that are srun's own, among those of the nodes' programs
SHOWN = 3  # of its last lines


def step_command(orders, run_dir, environ, log, how="--slurm"):
    """What starts supervisors by a step: the orders were written before there was an attempt's directory, and before it was known what the nodes have."""
    start = orders["start"]
    known = {RUN_DIR: run_dir, THIS_NODE: environ.get("SLURMD_NODENAME", ""), "--slurm": how}

    def filled(arguments):
        return [known.get(argument, argument) for argument in arguments]

    return filled(start.get("argv") or []) + container.command(orders, environ, log) + filled(start.get("command") or [])


class Step(Nodes):
    """One command that starts a supervisor on each node, such as srun. It carries what the supervisors report on its output."""

    signals_follow = True
    allocation = None  # what Slurm has of the allocation, and whether it is still ours (slurm/attempts/tenure.py)

    def __init__(self, orders, run_dir, bell, log):
        super().__init__(orders, run_dir, bell, log)
        self.head_apart = bool(orders["start"].get("early"))
        self.reports, self.measured = {}, {}  # (round, node name) -> the last
        self.gang = None  # the job of an early head's gang
        self.gave_up = set()  # those of them whose failure ended() has returned
        self.readers = []
        self.said = collections.deque(maxlen=SHOWN)  # srun's last errors

    def head_runs(self):
        return bool(self.children) and self.report(self.members[0]).get("state") in ("starting", "retrying")

    def granted_as(self):
        return "job " + os.environ.get("SLURM_JOB_ID", ""), float(os.environ.get("SLURM_JOB_START_TIME") or 0) or None

    def report(self, member):
        """Of a node with a job of its own from a file: there is no step of ours that could carry it."""
        return self.reported(member) if member.serial else self.reports.get((self.round, member.name), {})

    def gpus(self, member):
        return super().gpus(member) if member.serial else self.measured.get((self.round, member.name), {})

    def ended(self, codes):
        """The step goes on when one of its tasks ends: a supervisor that stopped trying is recognised by its report."""
        if any(pid in self.children for pid in codes):
            for reader in self.readers:
                reader.join(LAST_WORDS)
        lines = self.gang.lines() if self.gang else []
        for line in lines:
            self.take(line)
        if lines:  # a node has begun or ended: Slurm knows more of it
            self.companions.look_soon()
        found = super().ended(codes) + (self.companions.ended() if self.companions else [])
        for member in self.members:
            if member.serial:
                continue
            key = (self.round, member.name)
            if key not in self.gave_up and self.report(member).get("state") == "failed":
                self.gave_up.add(key)
                found.append((member.name, 1))
        return found

    def start(self):
        """Starts the step."""
        self.members = members.members(self.orders)  # those with jobs of their own have ended
        self.env = self.choose_addresses()
        if self.companions:
            self.companions.begin()
        self.said.clear()
        child = self.launch(self.command(), "step", self.env, subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        self.readers = [threading.Thread(target=self.listen, args=how, daemon=True) for how in ((child.stdout, self.take), (child.stderr, self.take_error))]
        for reader in self.readers:
            reader.start()

    def listen(self, output, take):
        """Takes lines, among them the supervisors' reports, until the step has ended."""
        with output:
            for line in output:
                take(line)
                self.bell.ring()

    def take(self, line):
        """A line of a step's output."""
        try:
            report = json.loads(line)
            if "gpus" in report:
                self.measured[report["round"], report["name"]] = report["gpus"]
                return
            self.reports[report["round"], report["name"]] = report
            self.log("node %(name)s %(state)s on %(host)s" % report
                     + (" in " + report["directory"] if report["directory"] else "")
                     + (": " + report["message"] if report["message"] else ""))
        except (ValueError, TypeError, KeyError):
            self.log("the step: " + line.decode("utf-8", "replace"))

    def take_error(self, line):
        """A line that a program of the step, or srun itself, wrote to stderr."""
        text = line.decode("utf-8", "replace").strip()
        if text.startswith(ERROR):
            self.said.append(text[len(ERROR):])
        self.log("the step: " + text)

    def last_words(self):
        return "; ".join(self.said)

    def unanswered(self):
        return bool(self.allocation) and self.allocation.unanswered(self.last_words())

    def taken(self):
        found = self.allocation.standing() if self.allocation else ""
        return "" if found == RUNS else found

    def warned(self):
        return self.allocation and self.allocation.warned()

    def confirm(self):
        if self.allocation and self.allocation.superseded():
            self.stop()
            raise Detached()

    def abandon(self):
        """For another thread than the keeper's, which may hang: ends at once what runs here of a cluster that another keeper has taken over, and this process."""
        for pid in list(self.children):
            try:
                os.kill(pid, signal.SIGUSR1)  # srun passes it on to the nodes that it reaches
            except OSError:
                pass
        select.select([], [], [], LAST_WORDS)
        self.end_here()  # a supervisor on a busy node may not have removed its directory yet
        # Its log is in the run's directory. What else waits for that must not go on when it is reached again.
        told = threading.Thread(target=self.log, args=("another keeper has taken over, or neither the run's directory nor the batch system can be reached: all that runs here was ended",), daemon=True)
        told.start()
        told.join(LAST_WORDS)
        os._exit(0)

    def start_gang(self, serial):
        self.gang = GangJob(self.run_dir, serial)
        self.start_one(self.gang)
        self.started()

    def gang_standing(self):
        return self.gang and self.companions.explained(self.gang)

    def gang_leaves(self):
        return self.gang and self.companions.warned(self.gang)

    def confirm_gang(self):
        if self.gang is None:
            return False
        self.companions.look_now()
        return any(self.report(m).get("state") == "ended" for m in self.members)

    def command(self):
        """What starts the step."""
        return step_command(self.orders, self.run_dir, os.environ, self.log)

    def start_one(self, member):
        self.companions.submit(member, {name: value for name, value in self.env.items() if name.startswith("RAYCTL_")})

    def started(self):
        self.companions.hand_in()

    def remove(self, member):
        member.released = True
        self.companions.cancel(member)

    def standing(self, member):
        return self.companions.standing(member)

    def drain(self, member):
        return self.companions.drain(member)

    def close(self):
        if self.companions:
            self.companions.close()

    def stop(self, limit=8.0):
        super().stop(limit)
        self.gang = None
        if self.companions:
            self.companions.wait(limit)

    def ask_to_stop(self):
        if self.companions:
            self.companions.end()
        for pid in self.children:
            try:
                os.kill(pid, signal.SIGUSR1)
            except OSError as error:
                self.log("cannot stop the step: %s" % error)
