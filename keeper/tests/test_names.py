"""Outside of their packages the keeper's code names no substrate, as TestOnlyOneFileNamesLaunchers (cmd/launchers_test.go) holds for Go: what a launcher is
like comes with the orders. Comments may name them. Run by `go test ./keeper`."""

import ast
import os
import re
import unittest

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rayctl_keeper")
OWN = ("slurm", "kubernetes")
NAME = re.compile(r"[-\w.$]*(?:slurm|kube|k8s|spooler|volcano)[-\w.]*|\btsp\b", re.IGNORECASE)

# By file: the only words with a name, and why they are there.
ALLOWED = {
    "host/address.py": ({"SLURMD_NODENAME", "slurm.network"}, "a node asks its own daemon for its name; the key that the user sets"),
    "host/portrange.py": ({"slurm.ports"}, "the key that the user sets"),
    "node/files/scratch.py": ({"SLURM_JOB_ID", "slurm.tmpDir"}, "the only variables that the key's path may have; the key that the user sets"),
    "node/gpus/nvml.py": ({"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}, "the GPUs of a node are in the first variable that is set, whoever set it"),
    "node/start/memory.py": ({"SLURM_HET_SIZE", "SLURM_NODEID", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_STEP_TASKS_PER_NODE", "SLURM_CPUS_ON_NODE"},
                             "what a node of a job was granted is known only there, on the node"),
    "node/start/raystart.py": ({"SLURM_", "SLURMD_", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_SACK_SOCKET", "SLURM_JOB_ID", "SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE"},
                               "what a node of a job was granted, and variables that a driver must not take for its own job's"),
    "node/supervisor.py": ({"--slurm", "--slurm-gang", "SLURM_PROCID"}, "the arguments with which a job's step starts it; a task learns its number there"),
    "run/end/warned.py": ({"Kubernetes"}, "a sentence for the user"),
    "run/gang/early.py": ({"Slurm", "head.slurm.partition", "slurm.network"}, "sentences for the user"),
    "run/limits/ends.py": ({"SLURM_JOB_END_TIME", "SLURM_JOB_START_TIME"}, "the end of the allocation, which is known only there once the job runs"),
    "run/nodes/step.py": ({"--slurm", "$SLURMD_NODENAME", "SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_JOB_START_TIME"},
                          "the supervisor's argument, the placeholder for this node in the orders' command, and the allocation that the nodes have"),
}


def words(path):
    """Names of substrates in a file's texts and identifiers; what documents the code is left out."""
    with open(path) as f:
        tree = ast.parse(f.read())
    documents = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            text = node.value
        for field in ("id", "attr", "arg", "name", "module"):
            text = text or getattr(node, field, None)
        for word in NAME.findall(text) if isinstance(text, str) else ():
            yield word


class Names(unittest.TestCase):
    def test_only_own_packages_name_substrates(self):
        found = {}
        for folder, _, names in os.walk(ROOT):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), ROOT).replace(os.sep, "/")
                if name.endswith(".py") and path.split("/")[0] not in OWN:
                    found[path] = set(words(os.path.join(folder, name)))
        self.assertTrue(found)
        for path, there in sorted(found.items()):
            allowed, why = ALLOWED.get(path, (set(), ""))
            self.assertLessEqual(there, allowed, "%s names a substrate; allowed there: %s" % (path, why or "nothing"))
        for path, (allowed, _) in sorted(ALLOWED.items()):
            self.assertLessEqual(allowed, found.get(path, set()), "%s does not need this exception any more" % path)


if __name__ == "__main__":
    unittest.main()
