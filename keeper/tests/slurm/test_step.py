"""A step's supervisors report to the keeper on the output of the step's command. Run by `go test ./keeper`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import process
from rayctl_keeper.node import supervisor
from rayctl_keeper.run.nodes import step as step_module
from rayctl_keeper.run.nodes.step import Step
from rayctl_keeper.slurm.attempts import tenure

ORDERS = {"version": 1, "name": "n", "attempt": 1, "advertise": "127.0.0.1", "dashboardHost": "127.0.0.1",
          "ray": {"python": "/opt/venv/bin/python"}, "groups": [{"name": "head", "count": 1}, {"name": "w", "count": 2}]}
SAY = "import sys; sys.stdout.buffer.write(sys.argv[1].encode('utf-8', 'surrogateescape')); sys.stdout.flush(); %s"


class Steps(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.logged, self.bell = [], process.Bell()

    def step(self, text, then):
        """A step whose command prints the text, and then does something."""
        start = {"mode": "step", "argv": [sys.executable, "-c", SAY % then, text]}
        step = Step(dict(ORDERS, start=start), self.dir.name, self.bell, self.logged.append)
        step.start()
        self.addCleanup(lambda: [child.kill() for child, _ in step.children.values()])
        return step

    def line(self, name, state, **more):
        return json.dumps(dict({"state": state, "message": "", "round": 0, "name": name, "host": "h1", "directory": ""}, **more)) + "\n"

    def test_reports(self):
        step = self.step(self.line("head-0", "starting", directory=self.dir.name) + self.line("w-1", "failed", message="caf\u00e9", round=3)
                         + "Slurm says\n[1]\n{}\n" + self.line("w-0", "failed", message="why"), "sys.stdin.close(); import time; time.sleep(60)")
        found = []
        while not found:
            self.bell.wait(10)
            found = step.ended({})
        self.assertEqual(found, [("w-0", 1)])
        self.assertEqual(step.ended({}), [])  # reported once
        self.assertEqual([step.report(m).get("message") for m in step.members], ["", "why", None])  # w-1's is not of this round
        self.assertEqual(step.directories(), [self.dir.name])
        self.assertEqual(self.logged, ["node head-0 starting on h1 in " + self.dir.name, "node w-1 failed on h1: caf\u00e9",
                                       "the step: Slurm says\n", "the step: [1]\n", "the step: {}\n", "node w-0 failed on h1: why"])
        step.round = 3
        self.assertEqual(step.ended({}), [("w-1", 1)])

    def test_abandons_without_its_log(self):
        """Where the run's directory hangs, the log does, too. What waits for it would go on when it is reached again."""
        back = threading.Event()
        self.addCleanup(back.set)
        ended = Step(dict(ORDERS, start={"mode": "step"}), self.dir.name, self.bell, lambda _: back.wait())
        with mock.patch.object(step_module, "LAST_WORDS", 0.01), mock.patch.object(ended, "end_here"), mock.patch.object(step_module.os, "_exit") as left:
            ended.abandon()
        left.assert_called_once_with(0)

    def test_last_words(self):
        """What a step printed before it ended is known when its end is."""
        step = self.step("noise\n" * 20000 + self.line("w-1", "failed", message="the reason"), "sys.exit(4)")
        (pid, (child, _)), = step.children.items()
        child.wait()
        self.assertEqual(step.ended({pid: 4}), [("step", 4), ("w-1", 1)])
        self.assertEqual(step.report(step.members[2])["message"], "the reason")

    def test_words_of_srun(self):
        """Among what the nodes' programs write to stderr; they say whether the start is repeated."""
        said = "Traceback\nsrun: error: Unable to confirm allocation for job 7: Unable to contact slurm controller (connect failure)\nsrun: error: and more\n"
        step = self.step(said, "sys.stdout.flush(); import os; os.write(2, sys.argv[1].encode()); sys.exit(1)")
        step.allocation = tenure.Tenure
        (pid, (child, _)), = step.children.items()
        child.wait()
        self.assertEqual(step.ended({pid: 1}), [("step", 1)])
        self.assertEqual(step.last_words(), "Unable to confirm allocation for job 7: Unable to contact slurm controller (connect failure); and more")
        self.assertTrue(step.unanswered())
        for other in b"node1: task 0: Exited with exit code 1\n", b"Task launch for StepId=7.0 failed on node node1: Connection refused\n":
            step.said.clear()
            step.take_error(b"srun: error: " + other)
            self.assertFalse(step.unanswered())

    def test_lines_are_short(self):
        report = {"state": "failed", "message": "caf\u00e9 \"\\\n\udce9" * 400, "directory": "/tmp/r12345678", "name": "w-0"}
        line = supervisor.report_line(report)
        self.assertLessEqual(len(line), supervisor.REPORT_LINE_LIMIT)
        self.assertGreater(len(line), supervisor.REPORT_LINE_LIMIT // 2)
        self.assertEqual(line.count(b"\n"), 1)
        self.assertTrue(json.loads(line)["message"].startswith("caf\u00e9 \"\\\n?"))
        self.assertEqual(json.loads(supervisor.report_line(dict(report, message="short")))["message"], "short")

    def test_signal_reaches_ray_first(self):
        """Slurm signals the processes of a step one after the other, Ray's maybe before its supervisor: that is the end, no failure of Ray."""
        python = os.path.join(self.dir.name, "python")
        with open(python, "w") as f:  # in place of the one that has Ray
            f.write("#!/bin/sh\nexec sleep 600\n")
        os.chmod(python, 0o755)
        with open(os.path.join(self.dir.name, "orders.json"), "w") as f:
            json.dump(dict(ORDERS, ray={"python": python, "tempRoot": self.dir.name}), f)
        with open(os.path.join(self.dir.name, "token"), "w") as f:
            f.write("token")
        environ = dict(os.environ, SLURM_PROCID="1", RAYCTL_GCS="127.0.0.1:1", RAYCTL_DASHBOARD="127.0.0.1:2", RAYCTL_CLIENT_PORT="3", RAYCTL_NODE_IP="127.0.0.1")
        supervisor = subprocess.Popen([sys.executable, os.path.dirname(HERE), "node", self.dir.name, "--slurm"],
                                      env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(supervisor.kill)
        self.addCleanup(supervisor.stdout.close)
        self.assertEqual(json.loads(supervisor.stdout.readline())["state"], "starting")
        ray = []
        while not ray:
            ray = [pid for pid in process.descendants(supervisor.pid) if process._read("/proc/%d/cmdline" % pid).startswith(b"sleep\0")]
        os.kill(ray[0], signal.SIGUSR1)
        while ray[0] in process.descendants(supervisor.pid):
            pass
        os.kill(supervisor.pid, signal.SIGUSR1)
        said = [json.loads(line)["state"] for line in supervisor.stdout]
        self.assertEqual((said, supervisor.wait()), (["ended"], 0))

    def test_no_file_for_a_node(self):
        """A supervisor in a step writes nothing into the run directory."""
        with open(os.path.join(self.dir.name, "orders.json"), "w") as f:
            json.dump(dict(ORDERS, ray=dict(ORDERS["ray"], tempRoot="/nonexistent")), f)
        out = subprocess.run([sys.executable, os.path.dirname(HERE), "node", self.dir.name, "--slurm"], check=False,
                             env=dict(os.environ, SLURM_PROCID="1"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(out.returncode, 1)
        report = json.loads(out.stdout.splitlines()[-1])
        self.assertEqual((report["name"], report["state"]), ("w-0", "failed"))
        self.assertIn("No such file or directory", report["message"])
        self.assertEqual(os.listdir(self.dir.name), ["orders.json"])


if __name__ == "__main__":
    unittest.main()
