"""Commands of threads. Run by `go test ./keeper`."""

import os
import subprocess
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import process


class Run(unittest.TestCase):
    def test_reaped_by_another_thread(self):
        """The keeper reaps whatever dies, also a command that a thread waits for: its code is what it was."""
        over, reaped = threading.Event(), set()

        def reap():
            while not over.is_set():
                reaped.update(process.reap())

        thread = threading.Thread(target=reap)
        thread.start()
        try:
            for code in list(range(8)) * 5:
                self.assertEqual(process.run(["sh", "-c", "echo said; echo why >&2; exit %d" % code], os.environ, 30), (code, b"said\n", b"why\n"))
        finally:
            over.set()
            thread.join()
        self.assertTrue(reaped)

    def test_without_another(self):
        self.assertEqual(process.run(["sh", "-c", "exit 3"], os.environ, 30), (3, b"", b""))
        self.assertRaises(OSError, process.run, ["/nowhere/sbatch"], os.environ, 30)
        self.assertRaises(subprocess.TimeoutExpired, process.run, ["sleep", "60"], os.environ, 0.1)
        self.assertEqual(process.reap(), {})


if __name__ == "__main__":
    unittest.main()
