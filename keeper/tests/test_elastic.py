"""Nodes that Ray's autoscaler asks for, and their jobs on Slurm. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import process
from rayctl_keeper.node.members import GANG, Member
from rayctl_keeper.run.elastic import Elastic
from rayctl_keeper.run.gang import Gang
from rayctl_keeper.run.nodes import Nodes
from rayctl_keeper.run.gangjob import GangJob
from rayctl_keeper.slurm import account, companions, reasons
from rayctl_keeper.state.document import State

ORDERS = {"name": "n", "attempt": 1, "advertise": "127.0.0.1", "ray": {},
          "groups": [{"name": "head", "count": 1}, {"name": "a", "count": 0, "max": 8}, {"name": "b", "count": 0, "max": 2}]}


class Started(Nodes):
    """Nodes that only are counted. broken: the machine has no process left."""

    broken = False

    def start_one(self, member):
        if self.broken:
            raise OSError(11, "Resource temporarily unavailable")


class Requests(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.begin(ORDERS)

    def begin(self, orders):
        self.state = State(orders, self.directory, lambda text: None)
        self.nodes = Started(orders, self.directory, process.Bell(), lambda text: None)
        self.elastic = Elastic(orders, "/nowhere", self.nodes, Gang(orders, self.nodes, self.state), self.state, lambda text: None)

    def launch(self, kind, count, request="r"):
        body = {"launch": {"type": kind, "count": count, "request": request}}
        self.elastic.change(body)
        return body.get("refusal")

    def test_one_request(self):
        """Ray gives one number to all that it asks for in one round: types, batches of five, and what it asks for again."""
        self.assertEqual([self.launch("a", 5), self.launch("a", 1), self.launch("b", 1), self.launch("b", 1)], [None] * 4)
        self.assertEqual(sorted(self.nodes.extra), ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "b-0", "b-1"])

    def test_name_again(self):
        """A node that fails to start has a pause and a reason, also where one of its name had gone because nothing needed it."""
        row = {"node_name": "a-0", "node_id": "1", "state": "DEAD", "state_message": "Terminated due to idle (no Ray activity)"}
        self.launch("a", 1)
        self.elastic._gang.changes([row])
        self.assertEqual(self.elastic._gang.row("a-0")["state"], "ENDED")
        self.elastic.ended("a-0", 1)
        for look in (lambda: None, lambda: self.elastic._gang.changes([row])):
            self.elastic._not_before.clear()
            self.assertIsNone(self.launch("a", 1))
            look()
            self.nodes.extra["a-0"].message = "Invalid account"
            self.elastic.ended("a-0", 1)
            self.assertEqual(self.state.doc["allocations"][-1]["message"], "Invalid account")
            self.assertIn("failed to start", self.launch("a", 1) or "")

    def test_next_attempt(self):
        """The receipt counts the nodes of earlier attempts, too; on Slurm each has a keeper of its own."""
        self.launch("a", 2)
        before = account.allocations_of(self.state.doc, "2026-01-01T00:00:00.000Z")
        self.begin(dict(ORDERS, allocations=before))
        self.launch("a", 1)
        self.assertEqual([(a["id"], a["state"], bool(a["released"])) for a in self.state.doc["allocations"]],
                         [("a-0.1", "released", True), ("a-1.2", "released", True), ("a-0.3", "granted", False)])

    def test_too_many(self):
        self.assertEqual(self.launch("b", 3), "group b has only 2 more nodes")
        self.assertEqual(sorted(self.nodes.extra), ["b-0", "b-1"])
        self.assertEqual(self.launch("b", 1), "group b has all of its 2 nodes")

    def test_no_process(self):
        self.nodes.broken = True
        self.assertIn("node a-0 cannot be started", self.launch("a", 1))
        self.assertEqual(self.nodes.extra, {})
        self.assertIn("the next try is in", self.launch("a", 1))


class Jobs(unittest.TestCase):
    """The commands are this class's: what they do in Slurm is tested with Slurm (slurm/elastic_test.go)."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        orders = {"start": {"companions": {"name": "c", "scripts": {"a": "a.sh"}}}}
        self.jobs = companions.Companions(orders, directory.name, process.Bell(), lambda text: None)
        self.jobs._thread = True  # the test is the thread
        self.jobs._run = self.run_command
        self.listed, self.answer, self.cancelled = [], (0, "7\n", ""), []
        self.member = Member(ORDERS["groups"][1], 0, beyond=True)
        self.member.serial = 1

    def run_command(self, command, *arguments):
        if command == "scancel":
            self.cancelled.append(arguments)
        return (0, "".join("|".join((job + ("N/A", "N/A", "None")[len(job) - 2:])[:5]) + "\n" for job in self.listed), "") if command == "squeue" else self.answer

    def submit(self):
        self.jobs.submit(self.member, {})
        function, *arguments = self.jobs._tasks.get()
        function(*arguments)

    def test_lost_answer(self):
        """A job that ended is not taken for the one whose answer was lost."""
        self.jobs._known.add("3")
        self.listed, self.answer = [("3", "RUNNING"), ("4", "CANCELLED"), ("5", "PENDING")], (1, "", "timed out")
        self.submit()
        self.assertEqual(self.jobs._jobs["a-0"]["id"], "5")

    def test_refused(self):
        """A job that comes too late finds nothing to do."""
        self.answer = (1, "", "Invalid account")
        self.submit()
        self.assertEqual((self.jobs.ended(), self.member.message), ([("a-0", 1)], "Invalid account"))
        self.assertFalse(os.path.exists(companions.given(self.jobs._run_dir, "a-0", 1)))

    def test_full_disk(self):
        self.jobs._run_dir = os.path.join(os.devnull, "below")
        self.submit()
        self.assertEqual(self.jobs.ended(), [("a-0", 1)])
        self.assertIn("its job cannot be submitted", self.member.message)

    def test_expected(self):
        """A plan behind a job without a limit is none: Slurm takes such a job to last a year."""
        soon, far = time.time() + 600, time.time() + 364 * 86400
        for start, says, known in ((soon, False, True), (far, True, False), (0.0, False, False)):
            text, expected = companions.waits({"id": "7", "reason": "Resources", "start": start})
            self.assertEqual(("is unknown" in text, expected is not None), (says, known))

    def test_never(self):
        """What waits for ever is cancelled, and its group marked."""
        self.submit()
        self.listed = [("7", "PENDING", "N/A", "N/A", "PartitionTimeLimit")]
        self.jobs._look()
        self.assertEqual((self.cancelled, self.jobs.ended(), self.member.hopeless), ([("7",)], [("a-0", 1)], True))

    def test_stray(self):
        self.submit()
        self.listed = [("7", "RUNNING"), ("8", "PENDING"), ("9", "COMPLETING")]
        self.jobs._look()
        self.assertEqual((self.cancelled, self.jobs.standing(self.member)), ([("8",)], ("granted", "job 7", None)))

    def test_missing(self):
        """A controller that was restarted does not know a job for some seconds."""
        self.submit()
        self.listed = [("7", "RUNNING")]
        self.jobs._look()
        self.listed = []
        self.assertTrue(self.jobs._look())
        self.assertEqual(self.jobs.ended(), [])
        self.jobs._jobs["a-0"]["missing"] = time.monotonic() - companions.BELIEVE
        self.jobs._look()
        self.assertEqual((self.jobs.ended(), self.jobs.standing(self.member)), ([("a-0", 1)], None))

    def test_gang(self):
        """Of a heterogeneous job the component that ended counts, and the one that waits for something."""
        self.jobs._wish["scripts"][GANG] = "gang.sh"
        gang = self.member = GangJob(self.jobs._run_dir, 1)
        self.submit()
        self.listed = [("7+0", "PENDING"), ("7+1", "PENDING")]
        self.jobs._look()
        self.assertEqual(self.jobs.explained(gang), ("queued", "Pending", "the job waits to be scheduled (job 7)", False))
        self.listed = [("7+0", "RUNNING"), ("7+1", "RUNNING")]
        self.jobs._look()
        self.assertEqual(self.jobs.explained(gang)[0], "granted")
        self.listed = [("7+0", "RUNNING"), ("7+1", "NODE_FAIL")]
        self.jobs._look()
        self.assertEqual((self.jobs.ended(), gang.ending, self.jobs.explained(gang)), ([(GANG, 1)], "NODE_FAIL", None))

    def test_gang_and_no_answer(self):
        """A controller that does not answer is asked again for the gang: it is what the cluster is for."""
        self.jobs._wish["scripts"][GANG] = "gang.sh"
        gang = self.member = GangJob(self.jobs._run_dir, 1)
        self.answer = (1, "", "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)")
        self.submit()
        self.assertEqual((self.jobs.ended(), self.jobs.explained(gang)[:2]), ([], ("queued", "Submitted")))
        self.jobs._jobs[GANG]["again"] = ({}, time.monotonic() - 1)
        self.answer = (0, "7\n", "")
        self.jobs._look()
        self.assertEqual(self.jobs._jobs[GANG]["id"], "7")

    def test_reasons(self):
        for reason, want in (("Resources", ("Resources", "the nodes it asks for are in use", False)), ("QOSMaxCpuPerUserLimit", ("QOSMaxCpuPerUserLimit",
                             "it has reached a limit of the QOS for one job or user (QOSMaxCpuPerUserLimit)", False)), ("BadConstraints", ("BadConstraints",
                             "no node can ever meet its constraints", True)), ("ReqNodeNotAvail, UnavailableNodes:n1", ("ReqNodeNotAvail",
                             "a node that it needs is not available (down, drained or reserved) (UnavailableNodes:n1)", False)), ("New", ("New", "Slurm's reason is New", False))):
            self.assertEqual(reasons.explain(reason), want)

    def warn(self, end):
        """What drain() says when Slurm has warned the node's job, and each time after that; how often Slurm was asked for it."""
        self.submit()
        self.listed = [("7", "RUNNING")]
        self.jobs._look()
        self.assertIsNone(self.jobs.drain(self.member))
        with open(companions.leaves(self.jobs._run_dir, "a-0", 1), "w") as f:
            f.write("%f\n" % end)
        self.jobs._jobs["a-0"]["opened"] -= companions.OPEN
        self.assertIsNone(self.jobs.drain(self.member))
        function, *arguments = self.jobs._tasks.get_nowait()
        function(*arguments)
        first = self.jobs.drain(self.member)
        self.jobs._jobs["a-0"]["opened"] -= companions.OPEN
        self.listed = [("7", "RUNNING", "%d" % (end - 120), "%d" % end, "None")]  # its time limit is near, too
        self.jobs._look()
        self.assertEqual((self.jobs.drain(self.member), self.jobs._tasks.empty()), (first, True))
        return first

    def test_warned(self):
        """One drain, also where the time limit comes near after Slurm's warning, which may be a minute early."""
        end = time.time() + 30
        self.assertEqual(self.warn(end), (round(end, 6) - companions.LAST, "job 7: drained after Slurm's warning"))

    def test_warned_with_the_cluster(self):
        """A drain would have Ray ask for another node, for seconds."""
        end = time.time() + 30
        run = self.jobs._run
        self.jobs._run = lambda *argv: (0, "%d\n" % end, "") if argv[-1].startswith("--jobs=") else run(*argv)
        self.assertIsNone(self.warn(end))

    def test_no_number(self):
        """sbatch succeeded, and its answer is lost."""
        self.listed, self.answer = [("5", "PENDING")], (0, "", "")
        self.submit()
        self.assertEqual(self.jobs._jobs["a-0"]["id"], "5")

    def test_given_up_twice(self):
        """By the keeper, after a drain, and by Ray: it is not taken for a node that died."""
        self.submit()
        self.listed, self.member.released = [("7", "RUNNING")], True
        self.jobs._cancel(self.member)
        self.listed = [("7", "COMPLETING")]
        self.jobs._cancel(self.member)
        self.assertEqual((self.cancelled, self.jobs.ended(), self.member.died), ([("7",)], [("a-0", 1)], False))

    def test_all_ended_meanwhile(self):
        """The answer comes when another cluster has begun."""
        self.jobs.submit(self.member, {})
        function, *arguments = self.jobs._tasks.get()

        def run(command, *rest):
            if command == "sbatch":
                self.jobs._jobs = {}
            return self.run_command(command, *rest)

        self.jobs._run = run
        function(*arguments)
        self.assertEqual((self.cancelled, self.jobs.ended()), ([("7",)], []))


if __name__ == "__main__":
    unittest.main()
