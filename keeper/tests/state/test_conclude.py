"""How a run ended whose keeper is dead: the cases that launcher/runstate passes, too. Run by `go test ./keeper`."""

import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.kubernetes.record import vanished
from rayctl_keeper.state.conclude import Verdict, conclude

CASES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "launcher", "runstate", "testdata", "conclude.json")


def filled(value):
    """Without what documents may leave out where it is empty."""
    if isinstance(value, list):
        return [filled(v) for v in value]
    if isinstance(value, dict):
        return {k: filled(v) for k, v in value.items() if v is not None and v != ""}
    return value


class Conclude(unittest.TestCase):
    def test_as_the_client_does(self):
        with open(CASES) as f:
            cases = json.load(f)
        self.assertGreater(len(cases), 15)
        for case in cases:
            with self.subTest(case["name"]):
                state = case["state"]
                got = conclude(state, Verdict(**case["verdict"]))
                self.assertEqual(filled(got["exit"]), filled(case["exit"]))
                self.assertEqual(filled(got["attempts"]), filled(case["attempts"]))
                reason = {"code": case["exit"]["cause"], "message": case["exit"]["message"]}
                self.assertEqual((got["phase"], got["since"], got["revision"], filled(got["reason"])), ("Gone", case["since"], state["revision"] + 1, reason))
                event = dict({"at": case["since"], "attempt": state["attempt"], "event": "phase", "to": "Gone"}, **reason)
                self.assertEqual((got["timeline"][:-1], got["timeline"][-1]), (state["timeline"], event))

    def test_record(self):
        """The record's pod judges by the same rules: a driver that had ended keeps its code, and what nobody has seen was never committed."""
        ended = {"revision": 7, "attempt": 1, "committed": True, "phase": "Draining", "reason": {"code": "driver-failed", "message": "the driver exited with code 3"},
                 "job": {"submissionId": "n-1", "state": "FAILED", "exitCode": 3, "signal": None}}
        got = vanished(ended)
        self.assertEqual((got["exit"]["origin"], got["exit"]["code"], got["attempts"][0]["exitCode"], got["log"]["missing"]), ("driver", 3, 3, [[0, -1]]))
        got = vanished({})
        self.assertEqual((got["exit"]["cause"], got["exit"]["code"], got["exit"]["retryable"], got["attempts"], got["log"]["missing"]), ("abandoned", 130, True, [], []))


if __name__ == "__main__":
    unittest.main()
