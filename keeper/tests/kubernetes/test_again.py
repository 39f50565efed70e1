"""Requests that are repeated while nobody answers. Run by `go test ./keeper`."""

import http.client
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.kubernetes.again import until_answered

AT_ONCE = (0.0, 1, 0.0)


class Asked:
    """Raises its errors one after another, and answers then."""

    def __init__(self, *errors):
        self.errors, self.times = list(errors), 0

    def __call__(self):
        self.times += 1
        if self.errors:
            raise self.errors.pop(0)


class Again(unittest.TestCase):
    def test_answered(self):
        ask = Asked(ConnectionError("reset"), http.client.BadStatusLine("x"), ValueError("no JSON"))
        self.assertIsNone(until_answered(None, ask, pauses=AT_ONCE))
        self.assertEqual(ask.times, 4)

    def test_given_up(self):
        ask = Asked(ConnectionError("first"), ConnectionError("second"), ConnectionError("third"))
        self.assertEqual(str(until_answered(None, ask, lambda error: str(error) == "second", AT_ONCE)), "second")
        self.assertEqual(ask.times, 2)
        self.assertEqual(str(until_answered(-1.0, ask, pauses=AT_ONCE)), "third")

    def test_others(self):
        with self.assertRaises(KeyError):
            until_answered(None, Asked(KeyError("a bug")), pauses=AT_ONCE)


if __name__ == "__main__":
    unittest.main()
