"""The jobs of nodes that Ray's autoscaler asks for on Slurm. Run by `go test ./keeper`."""

import os
import sys
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from companionjobs import CompanionJobs
from rayctl_keeper.node.groups.members import GANG
from rayctl_keeper.run.nodes.gangjob import GangJob
from rayctl_keeper.slurm.companions import companion, companions, drains, submission
from rayctl_keeper.slurm.controller import listing, questions, reasons


class Asked(unittest.TestCase):
    """What Slurm's commands about companions start with."""

    def test_environment(self):
        """Nothing of the job that we are in, of one from which it was submitted, or of the run: sbatch would take it for what is asked of it."""
        outer = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_CLUSTERS": "other", "SLURM_TIME_FORMAT": "%H", "SLURMD_NODENAME": "node1", "SBATCH_PARTITION": "nosuch",
                 "SRUN_CPUS_PER_TASK": "99", "PMI_RANK": "0", "PMIX_ID": "1", "RAYCTL_RESTARTS": "1", "SQUEUE_STATES": "SUSPENDED", "SALLOC_HINT": "x"}
        kept = {"SLURM_CONF": "/etc/slurm.conf", "SLURM_CONF_SERVER": "ctl", "SLURM_SACK_SOCKET": "/run/sack", "PATH": os.environ["PATH"], "KRB5CCNAME": "FILE:/tmp/krb"}
        with unittest.mock.patch.dict(os.environ, dict(outer, **kept), clear=True):
            code, out, _ = questions.Questions("c").run("env")
        self.assertEqual((code, dict(line.split("=", 1) for line in out.splitlines())), (0, kept))


    def test_expected_start(self):
        """Slurm takes a job without a time limit to last a year: an expected start that far away says nothing."""
        unknown = "the expected start is unknown (jobs without a time limit)"
        for ahead, told in ((364 * 86400.0, unknown), (3600.0, "Slurm expects to start it at "), (-5.0, "")):
            job = listing.Found("7", "PENDING", time.time() + ahead, 0.0, "Priority")
            words, start = listing.waits(job)
            self.assertEqual((unknown in words, start is not None), (told == unknown, ahead == 3600.0))
            _, _, words, never = listing.explained(job)
            self.assertEqual((told in words, " start" in words.partition("(job 7)")[2], never), (True, bool(told), False))


class Jobs(CompanionJobs):
    """Single jobs: submitted, looked for, warned, given up."""

    def test_lost_answer(self):
        """A job that ended is not taken for the one whose answer was lost."""
        self.jobs._submitter.known.add("3")
        self.listed, self.answer = [("3", "RUNNING"), ("4", "CANCELLED"), ("5", "PENDING")], (1, "", "timed out")
        self.submit()
        self.assertEqual(self.jobs._jobs["a-0"].id, "5")

    def test_refused(self):
        """A job that comes too late finds nothing to do."""
        self.answer = (1, "", "Invalid account")
        self.submit()
        self.assertEqual((self.jobs.ended(), self.member.message), ([("a-0", 1)], "Invalid account"))
        self.assertFalse(os.path.exists(submission.given(self.jobs._run_dir, "a-0", 1)))

    def test_full_disk(self):
        self.jobs._submitter._run_dir = os.path.join(os.devnull, "below")
        self.submit()
        self.assertEqual(self.jobs.ended(), [("a-0", 1)])
        self.assertIn("its job cannot be submitted", self.member.message)

    def test_expected(self):
        """A plan behind a job without a limit is none: Slurm takes such a job to last a year."""
        soon, far = time.time() + 600, time.time() + 364 * 86400
        for start, says, known in ((soon, False, True), (far, True, False), (0.0, False, False)):
            job = submission.Job(self.member, {})
            job.id, job.reason, job.start = "7", "Resources", start
            text, expected = listing.waits(job)
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
        self.jobs._jobs["a-0"].missing = time.monotonic() - companions.BELIEVE
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
        self.jobs._jobs[GANG].again = time.monotonic() - 1
        self.answer = (0, "7\n", "")
        self.jobs._look()
        self.assertEqual(self.jobs._jobs[GANG].id, "7")

    def test_reasons(self):
        for reason, want in (("Resources", ("Resources", "the nodes it asks for are in use", False)), ("QOSMaxCpuPerUserLimit", ("QOSMaxCpuPerUserLimit",
                             "it has reached a limit of the QOS for one job or user (QOSMaxCpuPerUserLimit)", False)), ("PartitionNodeLimit", ("PartitionNodeLimit",
                             "it asks for more nodes than the partition allows, or has in service", False)), ("BadConstraints", ("BadConstraints",
                             "no node can ever meet its constraints", True)), ("ReqNodeNotAvail, UnavailableNodes:n1", ("ReqNodeNotAvail",
                             "a node that it needs is not available (down, drained or reserved) (UnavailableNodes:n1)", False)), ("New", ("New", "Slurm's reason is New", False))):
            self.assertEqual(reasons.explain(reason), want)

    def warn(self, end):
        """Returns what drain() returns once Slurm has warned the job of the node. A later drain() returns the same, and asks Slurm nothing more."""
        self.submit()
        self.listed = [("7", "RUNNING")]
        self.jobs._look()
        self.assertIsNone(self.jobs.drain(self.member))
        with open(submission.leaves(self.jobs._run_dir, "a-0", 1), "w") as f:
            f.write("%f preempted\n" % end)
        self.jobs._jobs["a-0"].opened -= drains.OPEN
        self.assertIsNone(self.jobs.drain(self.member))
        function, *arguments = self.jobs._tasks.get_nowait()
        function(*arguments)
        first = self.jobs.drain(self.member)
        self.jobs._jobs["a-0"].opened -= drains.OPEN
        self.listed = [("7", "RUNNING", "%d" % (end - 120), "%d" % end, "None")]  # its time limit is near, too
        self.jobs._look()
        self.assertEqual((self.jobs.drain(self.member), self.jobs._tasks.empty()), (first, True))
        return first

    def test_warned(self):
        """One drain, also where the time limit comes near after Slurm's warning, which may be a minute early."""
        end = time.time() + 30
        self.assertEqual(self.warn(end), (round(end, 6) - drains.LAST, "job 7: drained after Slurm's warning"))

    def test_warned_with_the_cluster(self):
        """A drain would have Ray ask for another node, for seconds."""
        end = time.time() + 30
        run = self.jobs._slurm.run
        self.jobs._slurm.run = lambda *argv: (0, "%d\n" % end, "") if argv[-1].startswith("--jobs=") else run(*argv)
        self.assertIsNone(self.warn(end))

    def test_why_it_ends(self):
        """A preemption ends a job before its time limit; of a heterogeneous one the first component that ends counts."""
        now = int(time.time())
        for rows, want in ((["%d|%d|2:00" % (now + 60, now - 60)], (now + 60, "time-limit")), (["%d|%d|1-00:00:00" % (now + 60, now - 60)], (now + 60, "preempted")),
                           (["%d|%d|UNLIMITED" % (now + 60, now)], (now + 60, "preempted")), (["%d|%d|1:00:00" % (now + n, now - 3540) for n in (61, 60)], (now + 60, "time-limit"))):
            self.assertEqual(companion.ends("".join(row + "\n" for row in rows)), want)
        self.assertEqual(companion.ends("N/A|N/A|1:00\n")[1], "preempted")

    def test_no_number(self):
        """sbatch succeeded, and its answer is lost."""
        self.listed, self.answer = [("5", "PENDING")], (0, "", "")
        self.submit()
        self.assertEqual(self.jobs._jobs["a-0"].id, "5")

    def test_given_up_twice(self):
        """A node that the keeper has drained, or Ray, is not reported as one that died."""
        self.submit()
        self.listed, self.member.released = [("7", "RUNNING")], True
        self.jobs._cancel(self.member)
        self.listed = [("7", "COMPLETING")]
        self.jobs._cancel(self.member)
        self.assertEqual((self.cancelled, self.jobs.ended(), self.member.died), ([("7",)], [("a-0", 1)], False))

    def test_all_ended_meanwhile(self):
        """The answer comes when another cluster has begun."""
        self.jobs.submit(self.member, {})
        self.jobs.hand_in()
        function, *arguments = self.jobs._tasks.get()

        def run(command, *rest):
            if command == "sbatch":
                self.jobs._jobs = {}
            return self.run_command(command, *rest)

        self.jobs._slurm.run = run
        function(*arguments)
        self.assertEqual((self.cancelled, self.jobs.ended()), ([("7",)], []))


if __name__ == "__main__":
    unittest.main()
