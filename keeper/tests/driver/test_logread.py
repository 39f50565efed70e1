"""The forms in which Ray's state API gave a log, cut into pieces anywhere. Run by `go test ./keeper`."""

import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.ray import dashboard, logread

LOG = b"\x01" + b"1\n0" * 60000 + logread.MARKER + b"the driver's own\n" + bytes(range(256)) * 20 + logread.MARKER[:7]


def pieces(data, seed):
    """A read function of a connection that gives as much as it likes."""
    cut = random.Random(seed)
    left = [data]

    def read():
        size = cut.choice([1, 7, 1000, 1 << 16, 1 << 20])
        block, left[0] = left[0][:size], left[0][size:]
        return block

    return read


def whole(data, version, seed):
    read, out = logread.plain(pieces(data, seed), version), b""
    while True:
        block = read()
        if not block:
            return out
        out += block


class Forms(unittest.TestCase):
    def test_as_it_is(self):
        self.assertEqual(whole(LOG, (2, 46), 0), LOG)

    def test_inband(self):
        for seed in range(20):
            self.assertEqual(whole(LOG, (2, 40), seed), LOG)
            read = logread.plain(pieces(LOG + logread.MARKER + b"\nRuntimeError: gone\n", seed), (2, 33))
            with self.assertRaises(dashboard.Refused) as refused:
                while read():
                    pass
            self.assertIn("gone", str(refused.exception))

    def test_blocks(self):
        size = logread.BLOCK
        sent = b"".join(b"1" + LOG[at:at + size] for at in range(0, len(LOG), size))
        for seed in range(20):
            self.assertEqual(whole(sent, (2, 9), seed), LOG)
        with self.assertRaises(dashboard.Refused):
            whole(b"0Closing HTTP stream due to internal server error.\nno such file\n", (2, 9), 0)


if __name__ == "__main__":
    unittest.main()
