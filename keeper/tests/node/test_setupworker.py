"""rayhook/setup_worker.py: what becomes of a worker process with a runtime environment, and workers.py, which puts it there. Run by `go test ./keeper`."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import pipe
from rayctl_keeper.rayhook import setup_worker, workers

PROGRAM = os.path.abspath(setup_worker.__file__)
WORKER = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('A'), os.environ.get('B'), sys.executable, os.getcwd(), os.environ.get('PWD')]))"


class SetUpWorker(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.worker = os.path.join(self.top.name, "default worker.py")
        with open(self.worker, "w") as f:
            f.write(WORKER)

    def became(self, context, *arguments, language="PYTHON", name=workers.FAST, **env):
        """What the worker saw."""
        node = os.path.join(self.top.name, "node")
        os.makedirs(node, exist_ok=True)
        program = shutil.copy(PROGRAM, os.path.join(node, name))
        run = subprocess.run([sys.executable, program, self.worker, "--node-ip-address=10.0.0.1", "--language=" + language,
                              "--serialized-runtime-env-context=" + json.dumps(context), *arguments],
                             env=dict(os.environ, **env), cwd=self.top.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        return json.loads(run.stdout)

    def test_variables(self):
        """Variables are expanded, other ones are the worker's as they are; arguments come whole."""
        hostile = "it's $(touch x) \"q\" `id`\n;é"
        arguments, a, b, *_ = self.became({"env_vars": {"A": "${HOME}:${NO_SUCH_ONE}:" + hostile}}, "--x", hostile, HOME="/h", B="as before")
        self.assertEqual((arguments, a, b), (["--node-ip-address=10.0.0.1", "--x", hostile], "/h::" + hostile, "as before"))
        self.assertEqual(sorted(os.listdir(self.top.name)), ["default worker.py", "node"])

    def test_python_and_prefix(self):
        """A virtual environment's Python (pip, conda), and what goes before it: Ray writes that as shell."""
        python = os.path.join(self.top.name, "python")
        os.symlink(sys.executable, python)
        _, a, _, executable, *_ = self.became({"py_executable": python, "command_prefix": ["export A=prefixed;"], "env_vars": None})
        self.assertEqual((a, executable), ("prefixed", python))

    def test_entrypoint(self):
        """In a container Ray's files are elsewhere."""
        other = os.path.join(self.top.name, "other.py")
        with open(other, "w") as f:
            f.write("print('[\"other\"]')")
        self.assertEqual(self.became({"override_worker_entrypoint": other}), ["other"])

    def test_directory(self):
        """The worker is in the job's directory, whatever its name, unless its runtime environment has a directory of its own."""
        odd, other = os.path.join(os.path.realpath(self.top.name), "it's $HOME 100%24\n\u00e9"), os.path.join(os.path.realpath(self.top.name), "other")
        os.mkdir(odd)
        os.mkdir(other)
        variables = {"RAYCTL_CWD": pipe.literal(odd)}
        self.assertEqual(self.became({"env_vars": variables}, PWD="/")[4:], [odd, odd])
        self.assertEqual(self.became({"env_vars": variables, "command_prefix": ["cd %s &&" % other]}, PWD="/")[4:], [other, other])
        self.assertEqual(glob.glob(os.path.join(self.top.name, "node", "nodir-*")), [])

    def test_a_directory_that_is_not_there(self):
        """The worker begins where the raylet is, and the first one of each job says so in what Ray's log monitor takes for the log of a worker of that job."""
        top, there = os.path.realpath(self.top.name), self.worker
        logs = os.path.join(top, "session one", "logs")
        os.makedirs(logs)
        for directory, submission, job, notes in ((top + "/none", "a", "01000000", 1), (top + "/none", "a", "02000000", 1), (top + "/none", "b", "02000000", 2), (there, "b", "02000000", 3),
                                                  (top + "/none", "c", "", 3), (top + "/none", "d", "../x", 3)):
            saw = self.became({"env_vars": {"RAYCTL_CWD": directory, "RAYCTL_SUBMISSION_ID": submission}}, "--session-name=session one", "--temp-dir=" + top, RAY_JOB_ID=job)
            self.assertEqual(saw[4], top)
            self.assertEqual(len(os.listdir(logs)), notes, (directory, submission, job))
        texts = []
        for path in glob.glob(logs + "/worker-rayctl-0*-*.err"):
            with open(path) as f:
                texts.append(f.read())
        self.assertIn(":job_id:01000000\n" + setup_worker.MISSING % (top + "/none", top), texts)
        self.assertEqual(len(texts), 3)

    def test_raylet(self):
        """Only the program of Python's workers is replaced in the raylet's command."""
        own = "/opt/my ray/workers/setup_worker.py"
        command = ["raylet", "--a=" + own, "--python_worker_command=/p/python \"%s\" -s /w.py" % own, "--java_worker_command=/p/python \"%s\" -D" % own]
        changed = workers.begun_by(command, own, "/tmp/r/setup_worker.py")
        self.assertEqual(changed, command[:2] + ["--python_worker_command=/p/python /tmp/r/setup_worker.py -s /w.py"] + command[3:])
        self.assertEqual(workers.begun_by(command, "/other.py", "/x"), command)

    def test_the_unknown_is_rays(self):
        """Other languages, contexts with more in them, and all where Ray is to stay as it is, are left to Ray's own program, with the same arguments, but in the job's directory."""
        rays = os.path.join(self.top.name, "packages", "ray")
        os.makedirs(os.path.join(rays, "_private", "workers"))
        with open(os.path.join(rays, "__init__.py"), "w") as f:
            f.write("raise SystemExit('ray is not imported here')")
        with open(os.path.join(rays, "_private", "workers", "setup_worker.py"), "w") as f:
            f.write("import json, os, sys; print(json.dumps([os.getcwd()] + sys.argv[1:]))")
        variables = {"env_vars": {"RAYCTL_CWD": pipe.literal(rays)}}
        for context, language, name in ((variables, "JAVA", workers.FAST), (dict(variables, news=1), "PYTHON", workers.FAST), (variables, "PYTHON", workers.PLAIN)):
            own = self.became(context, language=language, name=name, PYTHONPATH=os.path.dirname(rays))
            self.assertEqual(own, [os.path.realpath(rays), self.worker, "--node-ip-address=10.0.0.1", "--language=" + language, "--serialized-runtime-env-context=" + json.dumps(context)])


if __name__ == "__main__":
    unittest.main()
