"""Nodes on this host, which the keeper starts one by one: at once, or when a queue of the host has a slot for them."""

import os
import signal
import subprocess
import sys
import threading

from rayctl_keeper import program
from rayctl_keeper.host import process
from rayctl_keeper.run.nodes.common import Nodes


class Spawned(Nodes):
    """One supervisor for each node, here; they end when we close their stdin, or die."""

    def start(self):
        """Starts all nodes at once, the head first."""
        self.env = self.choose_addresses()
        for member in self.members:
            member.serial = 0
            self.start_one(member)

    def start_one(self, member):
        self.launch([sys.executable, "-S", "-E"] + program.command("node", self.run_dir, member.name), member.name,
                    dict(self.env, RAYCTL_SERIAL=str(member.serial)), subprocess.PIPE)

    def remove(self, member):
        member.released = True
        for child, name in self.children.values():
            if name == member.name:
                child.stdin.close()

    def head_runs(self):
        return self.pid_of(self.members[0]) != 0

    def report(self, member):
        """From a file: whoever cleans up after a keeper that was killed reads it, too."""
        return self.reported(member)

    def ask_to_stop(self):
        for child, _ in self.children.values():
            child.stdin.close()


class Queued(Spawned):
    """Nodes here that may start when a queue of this machine has a free slot. The command of the orders waits for one, prints a line when it has it, and keeps it
    until its standard input ends, which happens also when this keeper dies."""

    queued = True
    ENDS = 2.0  # seconds for the queue to take the slot back

    def __init__(self, orders, run_dir, bell, log):
        super().__init__(orders, run_dir, bell, log)
        self.slot = None  # the command
        self.granted = False

    def start(self):
        """Asks for the slot; in the rounds after that starts the nodes."""
        if self.slot is not None:
            super().start()
            return
        self.slot = self.launch(self.orders["start"]["argv"], "slot", dict(os.environ), subprocess.PIPE, subprocess.PIPE)
        del self.children[self.slot.pid]  # it is none of the nodes
        threading.Thread(target=self.listen, args=(self.slot.stdout,), daemon=True).start()

    def listen(self, output):
        """Waits for the slot."""
        with output:
            self.granted = bool(output.readline())
        self.bell.ring()

    def ended(self, codes):
        if self.slot is None or self.slot.pid not in codes:
            return super().ended(codes)
        lost, self.slot, self.granted = [("slot", codes[self.slot.pid])], None, False
        return super().ended(codes) + lost

    def release(self):
        slot, self.slot = self.slot, None
        if slot is None:
            return
        slot.stdin.close()
        if not self.granted:  # it does not read while it waits
            os.killpg(slot.pid, signal.SIGTERM)
        until = process.time.monotonic() + self.ENDS
        while process.time.monotonic() < until:
            if slot.pid in process.reap():
                return
            self.bell.wait(0.1)
        os.killpg(slot.pid, signal.SIGKILL)
