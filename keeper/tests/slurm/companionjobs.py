"""Companion jobs without Slurm: its commands are answered by the test, what they do is tested with Slurm (slurm/elastic_test.go)."""

import tempfile
import unittest

from rayctl_keeper.host import process
from rayctl_keeper.node.groups.members import Member
from rayctl_keeper.slurm.companions import companions

GROUP = {"name": "a", "count": 0, "max": 8}


class CompanionJobs(unittest.TestCase):
    """Two nodes of a group, and what squeue and sbatch answer next."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        orders = {"start": {"companions": {"name": "c", "scripts": {"a": "a.sh"}}}}
        self.jobs = companions.Companions(orders, directory.name, process.Bell(), lambda text: None)
        self.jobs._thread = True  # the test is the thread
        self.jobs._slurm.run = self.run_command
        self.listed, self.answer, self.cancelled = [], (0, "7\n", ""), []
        self.member = Member(GROUP, 0, beyond=True)
        self.member.serial = 1

    def run_command(self, command, *arguments):
        if command == "scancel":
            self.cancelled.append(arguments)
        return (0, "".join("|".join((job + ("N/A", "N/A", "None")[len(job) - 2:])[:5]) + "\n" for job in self.listed), "") if command == "squeue" else self.answer

    def submit(self):
        self.jobs.submit(self.member, {})
        self.jobs.hand_in()
        function, *arguments = self.jobs._tasks.get()
        function(*arguments)

    def batch(self):
        """Two nodes of a group, that are asked for at once and submitted; returns all calls of sbatch."""
        calls, run = [], self.jobs._slurm.run

        def recorded(command, *arguments):
            if command == "sbatch":
                calls.append(arguments)
            return run(command, *arguments)

        self.jobs._slurm.run = recorded
        self.jobs.submit(self.second_member(), {})
        self.submit()
        return calls

    def second_member(self):
        self.second = Member(GROUP, 3, beyond=True)
        self.second.serial = 2
        return self.second

    def ids(self):
        return {name: job.id for name, job in self.jobs._jobs.items()}

    def forbid(self):
        """This node may not submit jobs."""
        self.answer = (1, "", "sbatch: error: Batch job submission failed: Access/permission denied")

    def run_tasks(self):
        while not self.jobs._tasks.empty():
            function, *arguments = self.jobs._tasks.get()
            function(*arguments)
