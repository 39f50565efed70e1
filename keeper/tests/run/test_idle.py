"""What a cluster without a job of its own shows. Run by `go test ./keeper`."""

import json
import os
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node.files import joblogs
from rayctl_keeper.run.job.submitted import Submitted
from rayctl_keeper.run.limits import idle
from rayctl_keeper.state.document import State, seconds_of


class Submissions(unittest.TestCase):
    def test_those_that_have_not_ended(self):
        def job(name, status, start):
            return {"submission_id": name, "status": status, "start_time": start, "entrypoint": "x" * 300}
        jobs = [job("old", "RUNNING", 1000), job("ended", "SUCCEEDED", 2000), {"job_id": "01", "status": "RUNNING"}, job("new", "PENDING", 3500), job("unborn", "PENDING", None)]
        shown = idle.submissions(jobs)
        self.assertEqual([(s["submissionId"], s["state"], s["startTime"]) for s in shown],
                         [("new", "PENDING", "1970-01-01T00:00:03.500Z"), ("old", "RUNNING", "1970-01-01T00:00:01.000Z"), ("unborn", "PENDING", None)])
        self.assertEqual(shown[0]["entrypoint"], "x" * idle.LONGEST)
        self.assertEqual([s.get("waitsFor") for s in shown], ["its environment, with its packages and files", None, "its environment, with its packages and files"])
        self.assertEqual(len(idle.submissions([job("a", "RUNNING", n) for n in range(200)])), idle.SHOWN)

    def test_what_one_waits_for(self):
        """As Ray 2.60 records it: a job of `rayctl submit`, one of another tool, one that has started, and a metadata text without an end."""
        ray = "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available. It may be waiting for the runtime environment to be set up."
        waiting = {"submission_id": "a", "status": "PENDING", "message": ray, "metadata": {"rayctl.reserves": "2 CPUs, 1 GPU"}}
        for record, want in ((waiting, "a node with 2 CPUs, 1 GPU free, or its environment"), (dict(waiting, metadata=None), "a node with what it reserves free, or its environment"),
                             (dict(waiting, status="RUNNING"), None), (dict(waiting, metadata={"rayctl.reserves": "x" * 9999}), ("a node with " + "x" * 9999)[:idle.LONGEST])):
            self.assertEqual(idle.submissions([record])[0].get("waitsFor"), want)


class EndedSubmissions(unittest.TestCase):
    def test_their_number_and_the_last(self):
        def job(name, status, end):
            return {"submission_id": name, "status": status, "start_time": end and end - 500, "end_time": end, "entrypoint": "x" * 300}
        jobs = [job("first", "SUCCEEDED", 1000), job("last", "FAILED", 3000), job("middle", "STOPPED", 2000), job("dev-drain-1", "STOPPED", 9000),
                job("runs", "RUNNING", None), {"job_id": "01", "status": "SUCCEEDED", "end_time": 5000}]
        self.assertEqual(idle.ended(jobs, "dev-drain-"), {"count": 3, "succeeded": 1, "last": {
            "submissionId": "last", "state": "FAILED", "entrypoint": "x" * idle.LONGEST, "startTime": "1970-01-01T00:00:02.500Z"}})
        self.assertIsNone(idle.ended(jobs[3:], "dev-drain-"))
        with tempfile.TemporaryDirectory() as run_dir:
            state = State({"name": "dev", "groups": []}, run_dir, lambda _line: None)
            for known in (jobs, jobs[3:]):  # a head that was started again knows none of them
                idle.show(state, known)
                self.assertEqual(state.doc["endedSubmissions"]["count"], 3)
                self.assertEqual([s["submissionId"] for s in state.doc["submissions"]], ["runs"])


class Kept(unittest.TestCase):
    def test_records_outlive_their_head(self):
        """Each job's last record; what ran on a head that was lost has failed, and the keeper's own are left out."""
        def job(name, status, start):
            return {"submission_id": name, "status": status, "start_time": start, "entrypoint": "python a.py", "runtime_env": {"env_vars": {"A": "b"}}}
        with tempfile.TemporaryDirectory() as run_dir:
            kept = Submitted("dev", run_dir, None, lambda _line: None)

            def written():
                with open(os.path.join(run_dir, "submissions.json")) as f:
                    return [(j["submission_id"], j["status"], j["message"]) for j in json.load(f)]

            kept.keep([{"job_id": "01", "status": "RUNNING"}])
            self.assertEqual(os.listdir(run_dir), [])
            kept.keep([job("second", "RUNNING", 2), job("first", "SUCCEEDED", 1), job("dev-drain-1", "RUNNING", 3)])
            self.assertEqual(written(), [("first", "SUCCEEDED", None), ("second", "RUNNING", None)])
            kept.keep([job("third", "PENDING", 4)])
            self.assertEqual(written(), [("first", "SUCCEEDED", None), ("second", "FAILED", "the head on which it ran was lost"), ("third", "PENDING", None)])
            Submitted("dev", run_dir, None, lambda _line: None).keep([job("fourth", "PENDING", 5)])  # of a keeper that was started again
            self.assertEqual(written()[1:], [("second", "FAILED", "the head on which it ran was lost"), ("third", "FAILED", "the head on which it ran was lost"), ("fourth", "PENDING", None)])
            with open(os.path.join(run_dir, "submissions.json")) as f:
                self.assertNotIn("runtime_env", f.read())
            kept.keep([job("%d" % i, "SUCCEEDED", 10 + i) for i in range(2000)])
            self.assertEqual((len(written()), written()[-1][0]), (1000, "1999"))

    def test_output(self):
        """The newest jobs' output, of a long one the beginning and the end, and none of the keeper's own or of what a link names."""
        with tempfile.TemporaryDirectory() as directory:
            logs, target = os.path.join(directory, "session_1", "logs"), os.path.join(directory, "jobs")
            os.makedirs(logs)
            for name, text in (("a", "first\n"), ("b", "0123456789"), ("n-1", "own"), ("n-prepare-1", "own"), ("n-drain-1790000000", "own"), ("n-drain-0a1b-17", "own"), ("n-eval", "of others\n"), ("c", "")):
                with open(os.path.join(logs, "job-driver-%s.log" % name), "w") as f:
                    f.write(text)
            os.symlink(os.path.join(logs, "job-driver-a.log"), os.path.join(logs, "job-driver-d.log"))
            joblogs.save(directory, target, "n", 8, 1000)
            self.assertEqual(texts(target), {"a.log": b"first\n", "b.log": b"01" + joblogs.GAP % 2 + b"456789", "n-eval.log": b"of" + joblogs.GAP % 2 + b"thers\n"})
            self.assertEqual(os.stat(os.path.join(target, "a.log")).st_mode & 0o777, 0o600)

    def test_bound_of_all(self):
        """The newest jobs come first; nothing is kept with a bound of 0, and defaults count with the orders of an earlier rayctl."""
        with tempfile.TemporaryDirectory() as directory:
            logs = os.path.join(directory, "session_1", "logs")
            os.makedirs(logs)
            for age, name in enumerate(("new", "middle", "old")):
                path = os.path.join(logs, "job-driver-%s.log" % name)
                with open(path, "w") as f:
                    f.write("0123")
                os.utime(path, (1000 - age, 1000 - age))
            for one, most, want in ((4, 6, {"new.log": b"0123", "middle.log": joblogs.GAP % 2 + b"23"}), (0, 6, None), (4, 0, None)):
                target = os.path.join(directory, "jobs-%d-%d" % (one, most))
                joblogs.save(directory, target, "n", one, most)
                self.assertEqual(texts(target) if os.path.exists(target) else None, want)
            with unittest.mock.patch.object(joblogs, "MOST", 1):
                joblogs.save(directory, os.path.join(directory, "first"), "n", 4, 100)
                self.assertEqual(list(texts(os.path.join(directory, "first"))), ["new.log"])
        for lifetime, bounds, want in (({}, joblogs.bounds, (8 << 20, 64 << 20)), ({"keepOutput": 0, "keepOutputTotal": 5}, joblogs.bounds, (0, 5)),
                                       ({"keepOutput": 1 << 30, "keepOutputTotal": 2 << 30}, joblogs.bounds, (1 << 30, 2 << 30)),
                                       ({"keepOutput": 1 << 30, "keepOutputTotal": 2 << 30}, joblogs.bounds_in_memory, (16 << 20, 2 << 30))):
            self.assertEqual(bounds({"lifetime": lifetime}), want)


def texts(directory):
    """The files of a directory."""
    found = {}
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as f:
            found[name] = f.read()
    return found


class Timeline(unittest.TestCase):
    def test_a_start_by_another_clock(self):
        """It is neither before what was known before it, nor after the end."""
        for start in ("2001-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"):
            with tempfile.TemporaryDirectory() as run_dir:
                state = State({"name": "n", "groups": [], "job": {}}, run_dir, lambda _line: None)
                state.note("commit", "")
                state.change(job=state.new_job("n-1"))
                state.change_program("job", state="FAILED", startTime=start)
                self.assertEqual([e["to"] for e in state.doc["timeline"]], ["", "RUNNING", "FAILED"])
                times = [seconds_of(e["at"]) for e in state.doc["timeline"]]
                self.assertEqual(times, sorted(times))


if __name__ == "__main__":
    unittest.main()
