"""rayhook/setup_worker.py: what becomes of a worker process with a runtime environment. Run by `go test ./keeper`."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.rayhook import setup_worker

PROGRAM = os.path.abspath(setup_worker.__file__)
WORKER = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('A'), os.environ.get('B'), sys.executable]))"


class SetUpWorker(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.worker = os.path.join(self.top.name, "default worker.py")
        with open(self.worker, "w") as f:
            f.write(WORKER)

    def became(self, context, *arguments, language="PYTHON", **env):
        """What the worker saw."""
        run = subprocess.run([sys.executable, PROGRAM, self.worker, "--node-ip-address=10.0.0.1", "--language=" + language,
                              "--serialized-runtime-env-context=" + json.dumps(context), *arguments],
                             env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        return json.loads(run.stdout)

    def test_variables(self):
        """Variables are expanded, other ones are the worker's as they are; arguments come whole."""
        hostile = "it's $(touch x) \"q\" `id`\n;é"
        arguments, a, b, _ = self.became({"env_vars": {"A": "${HOME}:${NO_SUCH_ONE}:" + hostile}}, "--x", hostile, HOME="/h", B="as before")
        self.assertEqual((arguments, a, b), (["--node-ip-address=10.0.0.1", "--x", hostile], "/h::" + hostile, "as before"))
        self.assertEqual(os.listdir(self.top.name), ["default worker.py"])

    def test_python_and_prefix(self):
        """A virtual environment's Python (pip, conda), and what goes before it: Ray writes that as shell."""
        python = os.path.join(self.top.name, "python")
        os.symlink(sys.executable, python)
        _, a, _, executable = self.became({"py_executable": python, "command_prefix": ["export A=prefixed;"], "env_vars": None})
        self.assertEqual((a, executable), ("prefixed", python))

    def test_entrypoint(self):
        """In a container Ray's files are elsewhere."""
        other = os.path.join(self.top.name, "other.py")
        with open(other, "w") as f:
            f.write("print('[\"other\"]')")
        self.assertEqual(self.became({"override_worker_entrypoint": other}), ["other"])

    def test_the_unknown_is_rays(self):
        """Other languages, and contexts with more in them, are left to Ray's own program, with the same arguments."""
        rays = os.path.join(self.top.name, "packages", "ray")
        os.makedirs(os.path.join(rays, "_private", "workers"))
        with open(os.path.join(rays, "__init__.py"), "w") as f:
            f.write("raise SystemExit('ray is not imported here')")
        with open(os.path.join(rays, "_private", "workers", "setup_worker.py"), "w") as f:
            f.write("import json, sys; print(json.dumps(['own'] + sys.argv[1:]))")
        for context, language in (({}, "JAVA"), ({"news": 1}, "PYTHON")):
            own = self.became(context, language=language, PYTHONPATH=os.path.dirname(rays))
            self.assertEqual(own, ["own", self.worker, "--node-ip-address=10.0.0.1", "--language=" + language, "--serialized-runtime-env-context=" + json.dumps(context)])


if __name__ == "__main__":
    unittest.main()
