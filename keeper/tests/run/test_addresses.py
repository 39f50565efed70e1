"""Ports behind addresses: IPv6 has brackets. Run by `go test ./keeper`."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import headfile
from rayctl_keeper.run.nodes import addresses


class Addresses(unittest.TestCase):
    def test_join(self):
        for host, want in (("10.0.0.1", "10.0.0.1:6379"), ("node1", "node1:6379"), ("::1", "[::1]:6379"), ("fd01::12", "[fd01::12]:6379")):
            self.assertEqual(addresses.join(host, 6379), want)
            self.assertEqual(headfile.HeadFile._join(host, 6379), want)


if __name__ == "__main__":
    unittest.main()
