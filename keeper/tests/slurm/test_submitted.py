"""Companions that are submitted together, or by a client. Run by `go test ./keeper`."""

import os
import sys
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from companionjobs import GROUP, CompanionJobs
from rayctl_keeper.node.groups.members import GANG, Member
from rayctl_keeper.run.nodes.gangjob import GangJob
from rayctl_keeper.slurm.companions import offers, submission


class Submitted(CompanionJobs):
    """Job arrays, and offers to a client where nodes may not submit."""

    def test_array(self):
        """What is asked for at once of a group is one array; its elements end each by itself."""
        calls = self.batch()
        self.assertEqual(len(calls), 1)
        self.assertIn("--array=3,0", calls[0])
        self.assertEqual(calls[0][-4:], ("a-3", "2", "a-0", "1"))
        self.assertEqual(self.ids(), {"a-0": "7_0", "a-3": "7_3"})
        self.listed = [("7_0", "COMPLETED"), ("7_3", "PENDING", "N/A", "N/A", "Resources")]
        self.jobs._look()
        self.assertEqual((self.jobs.ended(), self.ids(), self.cancelled), ([("a-0", 1)], {"a-3": "7_3"}, []))
        self.jobs._cancel(self.second)
        self.assertEqual(self.cancelled, [("7_3",)])

    def test_array_unanswered(self):
        """The elements that are found are those of the array, also where another job is new."""
        self.listed, self.answer = [("5", "PENDING"), ("6_3", "PENDING"), ("6_0", "PENDING")], (1, "", "timed out")
        self.batch()
        self.assertEqual(self.ids(), {"a-0": "6_0", "a-3": "6_3"})

    def test_no_arrays(self):
        """A site without job arrays has a job for each node; one that knows no such account is not asked again."""
        run = self.run_command
        self.jobs._slurm.run = lambda *argv: (1, "", "Invalid job array specification") if any(a.startswith("--array=") for a in argv) else run(*argv)
        self.assertEqual([any(a.startswith("--array=") for a in call) for call in self.batch()], [True, False, False])
        self.assertEqual(self.ids(), {"a-0": "7", "a-3": "7"})

    def test_array_lost(self):
        """Without an answer the array may come later: its nodes are not submitted one by one beside it, and its elements find nothing to do."""
        for words in ("sbatch: Command 'sbatch' timed out after 60.0 seconds", "Unable to contact slurm controller (connect failure)"):
            self.answer = (1, "", words)
            self.assertEqual((len(self.batch()), self.jobs.ended()), (1, [("a-3", 1), ("a-0", 1)]))
            self.assertFalse(os.path.exists(submission.given(self.jobs._run_dir, "a-0", 1)))

    def test_no_answers_here(self):
        """A node that can neither submit jobs nor ask for them offers nothing: the jobs of a client would run without anybody who knows."""
        self.jobs._slurm.run = lambda *argv: (1, "", "%s: error: Munge encode failed" % argv[0])
        self.batch()
        self.assertEqual((self.jobs.offered(), self.jobs.ended()), (0, [("a-3", 1), ("a-0", 1)]))

    def test_array_never(self):
        self.answer = (1, "", "Invalid account")
        self.assertEqual((len(self.batch()), self.jobs.ended(), self.second.hopeless), (1, [("a-3", 1), ("a-0", 1)], True))

    def test_offered(self):
        """What this node may not submit a client takes, all of it at once and no other one; what it reports is the nodes' jobs."""
        self.forbid()
        self.batch()
        state, words, _ = self.jobs.standing(self.member)
        self.assertEqual((state, self.jobs.offered(), "`rayctl run`" in words and "permission denied" in words), ("queued", 1, True))
        offer = self.jobs.take_offer()
        self.assertIn("--array=3,0", offer["argv"])
        self.assertEqual((self.jobs.take_offer(), self.jobs.offered()), (None, 0))
        self.listed = [("9_0", "PENDING"), ("9_3", "PENDING")]  # not reported yet
        self.jobs._look()
        self.assertEqual((self.ids(), self.cancelled), ({"a-3": "9_3", "a-0": "9_0"}, []))
        self.jobs.cancel(self.second)
        self.jobs.offer_taken(offer["id"], "9", "")  # which is known
        self.run_tasks()
        self.assertEqual(self.cancelled, [("9_3",)])
        self.listed = [("9_0", "RUNNING")]
        self.jobs.cancel(self.member)
        self.run_tasks()
        self.assertEqual(self.cancelled, [("9_3",), ("9_0",)])
        del self.cancelled[1:]
        self.jobs.offer_taken(offer["id"], "10", "")  # too late
        self.run_tasks()
        self.assertEqual(self.cancelled[1:], [("--name=c", "10")])

    def test_offer_not_reported(self):
        """A client died: its job is found, or the next one takes the offer; this node is tried again, too."""
        self.forbid()
        self.submit()
        for found in ([], [("9", "PENDING")]):
            self.assertIsNotNone(self.jobs.take_offer())
            if not found:
                self.jobs._submitter.offers._offers[0].since -= offers.CLAIM
            self.listed = found
            self.jobs._look()
        self.assertEqual((self.ids(), self.jobs.offered()), ({"a-0": "9"}, 0))
        self.jobs.submit(self.second_member(), {})
        self.jobs.hand_in()
        self.run_tasks()
        self.answer = (0, "11", "")
        self.jobs._submitter.offers._offers[0].since -= offers.AGAIN
        self.jobs._look()
        self.assertEqual(self.ids(), {"a-0": "9", "a-3": "11"})

    def test_offer_refused(self):
        """What the client is refused is the node's reason; what nobody has taken is given up at once."""
        self.forbid()
        self.submit()
        self.jobs.offer_taken(self.jobs.take_offer()["id"], "", "Invalid account")
        self.run_tasks()
        self.assertEqual((self.jobs.ended(), self.member.message, self.member.hopeless), ([("a-0", 1)], "Invalid account", True))
        self.submit()
        self.member.released = True
        self.jobs.cancel(self.member)
        self.run_tasks()
        self.assertEqual((self.jobs.ended(), self.jobs.offered(), self.member.died), ([("a-0", 1)], 0, False))

    def test_gang_offered(self):
        """A gang waits for a client that may submit it: neither one that may not nor a controller that is silent for once ends the run."""
        self.forbid()
        self.jobs._wish["scripts"][GANG] = "gang.sh"
        gang = self.member = GangJob(self.jobs._run_dir, 1)
        self.submit()
        self.jobs.offer_taken(self.jobs.take_offer()["id"], "", "sbatch: error: Access/permission denied")
        self.run_tasks()
        self.assertEqual((self.jobs.ended(), self.jobs.offered()), ([], 0))
        self.jobs._jobs[GANG].again = time.monotonic() - 1
        self.jobs._look()
        self.assertEqual((self.jobs.ended(), self.jobs.offered()), ([], 1))
        run = self.run_command
        self.jobs._slurm.run = lambda *argv: (1, "", "timed out") if argv[0] == "squeue" else run(*argv)
        self.jobs._submitter.submit([self.jobs._jobs[GANG]])
        self.assertEqual((self.jobs.ended(), gang.ending), ([], ""))
        self.jobs._slurm.run = run
        self.jobs.offer_taken(self.jobs.take_offer()["id"], "", "Invalid account")
        self.run_tasks()
        self.assertEqual(self.jobs.ended(), [(GANG, 1)])

    def test_comment(self):
        """A comment of the cluster file, which the script has, is not replaced."""
        other = Member(GROUP, 1, beyond=True)
        other.serial = 1
        for members, comment in ([self.member], "--comment=rayctl node a-0"), ([self.member, other], "--comment=rayctl nodes of a"):
            jobs = [submission.Job(member, {}) for member in members]
            wish = {"name": "c", "scripts": {"a": "a.sh"}}
            argv = submission.Submission("/r", wish, jobs).argv(["--time=5"])
            self.assertIn(comment, argv)
            commented = submission.Submission("/r", dict(wish, commented=True), jobs).argv(["--time=5"])
            self.assertEqual(commented, [argument for argument in argv if argument != comment])

    def test_own_node(self):
        nodes = ["a-3", "2", "a-0", "1"]
        for index, want in (("3", ("a-3", "2")), ("0", ("a-0", "1"))):
            with unittest.mock.patch.dict(os.environ, {"SLURM_ARRAY_TASK_ID": index}):
                self.assertEqual(submission.own_node(nodes), want)
        self.assertEqual(submission.own_node(nodes[2:]), ("a-0", "1"))


if __name__ == "__main__":
    unittest.main()
