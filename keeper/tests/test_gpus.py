"""Which GPUs are a node's, and what is summed up of them. Run by `go test ./keeper`; NVML itself is a stand-in in launcher/keeper/gpus_test.go."""

import os
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node import gpus, nvml

SEEN = [("GPU-aaaa-1", 10), ("GPU-bbbb-2", 20), ("GPU-cccc-3", 30)]


class Visible(unittest.TestCase):
    def ours(self, wanted, **environ):
        try:
            return [percent for _, percent in nvml.ours(SEEN, wanted, environ)]
        except nvml.Unreadable as error:
            return str(error)

    def test_ours(self):
        self.assertEqual(self.ours(3), [10, 20, 30])
        self.assertEqual(self.ours(2), [10, 20])  # Ray takes the first ones, too
        self.assertEqual(self.ours(2, CUDA_VISIBLE_DEVICES="2, 0"), [30, 10])
        self.assertEqual(self.ours(1, CUDA_VISIBLE_DEVICES="GPU-bb"), [20])
        self.assertEqual(self.ours(1, NVIDIA_VISIBLE_DEVICES="GPU-cccc-3", SLURM_JOB_GPUS="0"), [30])
        self.assertEqual(self.ours(3, NVIDIA_VISIBLE_DEVICES="all"), [10, 20, 30])
        self.assertEqual(self.ours(3, SLURM_JOB_GPUS="4,5,6"), [10, 20, 30])  # a cgroup shows these alone

    def test_unclear(self):
        """What is not sure to be the node's own is not measured."""
        self.assertIn("it has 4 GPUs, and 3 are seen", self.ours(4))
        self.assertIn("4,5, and 3 GPUs are seen", self.ours(2, SLURM_JOB_GPUS="4,5"))
        self.assertIn("MIG", self.ours(1, CUDA_VISIBLE_DEVICES="MIG-1234"))
        self.assertIn("not seen", self.ours(1, CUDA_VISIBLE_DEVICES="GPU-x"))
        for nothing in ("", "-1", "NoDevFiles"):
            self.assertIn("shows it no GPU", self.ours(1, CUDA_VISIBLE_DEVICES=nothing))

    def test_none(self):
        with mock.patch.object(nvml, "LIBRARY", "libno-such-nvml.so.1"), mock.patch.dict(os.environ, PATH="/nowhere"):
            report = gpus.Meter(1, {}).read()
        self.assertEqual((report["message"], report["seconds"], report["idle"]), ("there is neither libno-such-nvml.so.1 nor nvidia-smi", 0.0, 0.0))


class Sums(unittest.TestCase):
    def test_sums(self):
        """A GPU that cannot be read may be busy: nothing counts as idle then."""
        now, percents = [0.0], []
        with mock.patch.object(nvml, "source", lambda: self):
            self.read = lambda: [("GPU-%d" % i, p) for i, p in enumerate(percents)]
            meter = gpus.Meter(2, {}, lambda: now[0])
            for percents, idle, seconds, busy in (([100, 0], 0, 20, 10), ([1, 1], 10, 40, 10.2), ([None, 0], 0, 40, 10.2), ([0, 0], 10, 60, 10.2), ([2, 0], 0, 80, 10.4)):
                now[0] += 10.0
                report = meter.read()
                self.assertEqual((report["idle"], report["seconds"], report["busySeconds"]), (idle, seconds, busy), percents)
                self.assertEqual("MIG" in report["message"], None in percents)


if __name__ == "__main__":
    unittest.main()
