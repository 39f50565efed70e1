"""Which GPUs are a node's, and what is summed up of them. Run by `go test ./keeper`; NVML itself is a stand-in in launcher/keeper/gpus_test.go."""

import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.node.gpus import gpus, measuring, nvml

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
        self.assertIn("it has 4 GPUs, but 3 are visible", self.ours(4))
        self.assertIn("4,5, but 3 GPUs are visible", self.ours(2, SLURM_JOB_GPUS="4,5"))
        self.assertIn("MIG", self.ours(1, CUDA_VISIBLE_DEVICES="MIG-1234"))
        self.assertIn("not visible", self.ours(1, CUDA_VISIBLE_DEVICES="GPU-x"))
        for nothing in ("", "-1", "NoDevFiles"):
            self.assertIn("shows it no GPU", self.ours(1, CUDA_VISIBLE_DEVICES=nothing))

    def test_none(self):
        with mock.patch.object(nvml, "LIBRARY", "libno-such-nvml.so.1"), mock.patch.dict(os.environ, PATH="/nowhere"):
            report = gpus.Meter(1, {}).read()
        self.assertEqual((report["message"], report["seconds"], report["idle"]), ("there is neither libno-such-nvml.so.1 nor nvidia-smi", 0.0, 0.0))


class Answers(unittest.TestCase):
    """Of an nvidia-smi that does not do what it should."""

    def read(self, script):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "nvidia-smi")
            with open(path, "w") as f:
                f.write("#!/bin/sh\n" + script)
            os.chmod(path, 0o755)
            with mock.patch.object(nvml, "SMI", [path]), mock.patch.object(nvml, "SMI_LIMIT", 0.3 if "sleep" in script else 60.0):
                try:
                    return nvml.Program().read()
                except nvml.Unreadable as error:
                    return str(error)

    def test_answers(self):
        self.assertEqual(self.read("echo 'GPU-1, 7'; echo; echo 'GPU-2, [N/A]'; echo 'GPU-3, [GPU requires reset]'; printf 'GPU-4, \\302\\262\\n'"),
                         [("GPU-1", 7), ("GPU-2", None), ("GPU-3", None), ("GPU-4", None)])
        self.assertEqual(self.read(""), [])
        self.assertEqual(self.read("echo No devices were found"), "nvidia-smi: No devices were found")
        self.assertEqual(self.read("echo Failed to initialize NVML: Driver/library version mismatch; exit 18"), "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch")
        self.assertEqual(self.read("exit 9"), "nvidia-smi: it ended with code 9")
        self.assertEqual(self.read("exec sleep 60"), "nvidia-smi has not answered for 0s")
        self.assertLess(len(self.read("head -c 100000 /dev/zero | tr '\\0' x")), 300)

    def test_other_library(self):
        """A library of that name without NVML's functions."""
        with mock.patch.object(nvml, "LIBRARY", "libc.so.6"):
            report = gpus.Meter(1, {}).read()
        self.assertIn("libc.so.6 is no NVML", report["message"])

    def test_late(self):
        """Reports that were not taken for long."""
        measured = measuring.Measuring.__new__(measuring.Measuring)
        reader, writer = os.pipe()
        measured._child, measured._rest = mock.Mock(stdout=os.fdopen(reader, "rb", 0)), b""
        for number in range(100):
            os.write(writer, b'{"count": %d, "message": "%s"}\n' % (number, b"x" * 100))
        os.close(writer)
        taken = []
        while measured.fds():
            report = measured.take(measured.fds())
            taken += [report["count"]] if report else []
        self.assertEqual((taken[-1], taken), (99, sorted(taken)))


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
