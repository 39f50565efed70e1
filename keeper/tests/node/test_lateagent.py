"""rayhook/lateagent.py: the dashboard agent of a worker node begins later, as the process that the raylet started. Run by `go test ./keeper`."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

from rayctl_keeper.rayhook import lateagent


class LateAgent(unittest.TestCase):
    def test_command(self):
        """Only the agent's option changes, and a directory with a space stays one argument (src/ray/util/cmd_line_utils.cc reads it as a shell does)."""
        before = ["raylet", lateagent.OPTION + "python -u agent.py", "--runtime_env_agent_command=python -u rt.py"]
        after = lateagent.later(before, "/tmp/a b/agent.sh")
        self.assertEqual(after, ["raylet", lateagent.OPTION + '/bin/sh "/tmp/a b/agent.sh" python -u agent.py', before[2]])
        self.assertEqual(lateagent.later(["gcs_server"], "/tmp/agent.sh"), ["gcs_server"])

    def test_same_process(self):
        """The raylet ends when the process that it started does, so that the agent has to be this process."""
        with tempfile.TemporaryDirectory() as top:
            path = os.path.join(top, "agent.sh")
            with open(path, "w") as f:
                f.write(lateagent.SCRIPT.replace("sleep %d" % lateagent.WORKERS_FIRST, "sleep 0"))
            agent = subprocess.Popen(["/bin/sh", path, sys.executable, "-c", "import os, sys; print(os.getpid(), sys.argv[1])", "a b"], stdout=subprocess.PIPE, text=True)
            self.assertEqual(agent.communicate()[0], "%d a b\n" % agent.pid)


if __name__ == "__main__":
    unittest.main()
