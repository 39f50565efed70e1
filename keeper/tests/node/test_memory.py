"""What a Ray node of a Slurm job takes for its memory. Run by `go test ./keeper`."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node.start import memory, raystart

GIB = 1 << 30
CGROUPS = "/sys/fs/cgroup"


def removed(cgroup):
    """The kernel needs a moment after the last process of a cgroup has ended."""
    for _ in range(100):
        try:
            return os.rmdir(cgroup)
        except OSError:
            time.sleep(0.05)
    os.rmdir(cgroup)


class Memory(unittest.TestCase):
    def machine(self, files):
        """A root directory with cgroups as Slurm makes them, which no Slurm of the tests has. Paths and contents are those of cgroup/v1 and cgroup/v2 (slurm.schedmd.com/cgroup_v2.html)."""
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        for path, text in dict({"proc/meminfo": "MemFree: 1 kB\nMemTotal: %d kB\n" % (64 << 20)}, **files).items():
            os.makedirs(os.path.dirname(os.path.join(root.name, path)), exist_ok=True)
            with open(os.path.join(root.name, path), "w") as f:
                f.write(text)
        return root.name

    def test_variables(self):
        root = self.machine({})
        for env, want in (({}, 0), ({"SLURM_MEM_PER_NODE": "8192"}, 8 * GIB), ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "6"}, 6 * GIB),
                          ({"SLURM_MEM_PER_NODE": "0"}, 0), ({"SLURM_MEM_PER_NODE": "99999999"}, 0), ({"SLURM_MEM_PER_NODE": "$(id)"}, 0),
                          ({"SLURM_MEM_PER_NODE": "8192", "SLURM_HET_SIZE": "2"}, 0),
                          ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "6", "SLURM_STEP_TASKS_PER_NODE": "3(x2),2", "SLURM_NODEID": "1"}, 2 * GIB),
                          ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "6", "SLURM_STEP_TASKS_PER_NODE": "3(x2),2", "SLURM_NODEID": "2"}, 3 * GIB),
                          ({"SLURM_STEP_TASKS_PER_NODE": "2"}, 32 * GIB)):
            self.assertEqual(memory.share(env, root), want, env)

    def test_cgroups(self):
        job = "system.slice/slurmstepd.scope/job_7"
        second = {"proc/self/cgroup": "0::/%s/step_0/user/task_0\n" % job, "sys/fs/cgroup/%s/memory.max" % job: "4294967296\n",
                  "sys/fs/cgroup/%s/step_0/memory.max" % job: "max\n"}
        self.assertEqual(memory.share({}, self.machine(second)), 4 * GIB)
        self.assertEqual(memory.share({"SLURM_HET_SIZE": "2", "SLURM_MEM_PER_NODE": "1"}, self.machine(second)), 4 * GIB)
        self.assertEqual(memory.share({"SLURM_MEM_PER_NODE": "2048", "SLURM_STEP_TASKS_PER_NODE": "2"}, self.machine(second)), GIB)
        first = {"proc/self/cgroup": "9:cpu,cpuacct:/x\n4:memory:/slurm/uid_1/job_7/step_0\n", "sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes": "2147483648\n",
                 "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
        self.assertEqual(memory.share({}, self.machine(first)), 2 * GIB)

    def test_real_cgroup(self):
        """A limit that the kernel knows, of a cgroup above the process's own."""
        found = [(hierarchy, name) for hierarchy, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")) if os.path.isfile(os.path.join(CGROUPS, hierarchy, "cgroup.procs"))]
        if not found or not os.access(os.path.join(CGROUPS, found[0][0]), os.W_OK):
            self.skipTest("no cgroup can be made here")
        job = os.path.join(CGROUPS, found[0][0], "rayctl-test-%d" % os.getpid())
        step = os.path.join(job, "step")
        for path in (job, step):
            os.mkdir(path)
            self.addCleanup(removed, path)
        with open(os.path.join(job, found[0][1]), "w") as f:
            f.write(str(GIB))
        program = ("import os, sys\nwith open(os.path.join(sys.argv[1], 'cgroup.procs'), 'w') as f: f.write(str(os.getpid()))\n"
                   "sys.path.insert(0, sys.argv[2])\nfrom rayctl_keeper.node.start import memory\nprint(memory.share({}), memory.share({'SLURM_STEP_TASKS_PER_NODE': '4'}))")
        told = subprocess.run([sys.executable, "-c", program, step, os.path.dirname(HERE)], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual([int(n) for n in told.split()], [GIB, GIB // 4])

    def test_fits(self):
        """Memory and object store together are what the job was given."""
        self.assertEqual(memory.split(10 * GIB, 64 * GIB), (7 * GIB, 3 * GIB))
        self.assertEqual(sum(memory.split(10 * GIB, GIB)), 10 * GIB)
        self.assertLess(memory.split(10 * GIB, GIB)[1], GIB)
        self.assertEqual(memory.split(100 << 20, GIB), (20 << 20, 80 << 20))

    def test_arguments(self):
        base = {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "1", "SLURM_MEM_PER_NODE": "512"}
        args = raystart.resources({"objectStoreMemory": 100 << 20}, "/d", base)
        self.assertIn("--memory=%d" % (412 << 20), args)
        self.assertIn("--object-store-memory=%d" % (100 << 20), args)
        self.assertIn("--memory=%d" % (1 << 30), raystart.resources({"memory": 1 << 30}, "/d", base))


if __name__ == "__main__":
    unittest.main()
