"""Pods that cannot start: the cases that clients judge, too (kuberay/due.go). Run by `go test ./keeper`."""

import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.kubernetes.nodewatch import NodeWatch
from rayctl_keeper.kubernetes.unstartable import unstartable
from rayctl_keeper.run.gang.hopeless import Hopeless
from rayctl_keeper.state.exits import End

CASES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "kuberay", "testdata", "containers.json")


def cases():
    with open(CASES) as f:
        return json.load(f)


class Watch(NodeWatch):
    """One that has got these pods, without an API server."""

    def __init__(self, *pods):
        super().__init__("c", None, server=object())
        self.take(*pods)

    def take(self, *pods):
        self._pods.update({pod["metadata"]["name"]: self._take_pod(pod) for pod in pods})


class State:
    def __init__(self, phase):
        self.doc = {"phase": phase}


class Unstartable(unittest.TestCase):
    def test_as_the_client_does(self):
        self.assertGreater(len(cases()), 15)
        for case in cases():
            with self.subTest(case["name"]):
                want = None if case["patience"] is None else (case["patience"], case["message"])
                self.assertEqual(unstartable(case["pod"]), want)

    def test_patience(self):
        """A reason that may pass counts from when it was first seen, also if another follows, and anew after it has passed."""
        by_name = {case["name"]: case["pod"] for case in cases()}
        watch = Watch(by_name["image error"])
        since = watch._pods["c-w-x"][2][2]
        watch.take(by_name["image is tried again"])
        self.assertEqual(watch._pods["c-w-x"][2][2], since)
        self.assertIsNone(watch.unstartable(since + 59))
        self.assertIn("cannot be pulled", watch.unstartable(since + 60))
        watch.take(by_name["runs"])
        self.assertIsNone(watch.unstartable(since + 60))
        watch.take(by_name["image error"])
        self.assertGreaterEqual(watch._pods["c-w-x"][2][2], since)

    def test_end(self):
        """Only a start ends so: a cluster that is ready goes on, and KubeRay replaces its pods."""
        watch = Watch(*[case["pod"] for case in cases() if case["name"] == "invalid image"])
        for phase in ("Queued", "Provisioning", "Starting"):
            with self.assertRaises(End) as raised:
                Hopeless(watch, State(phase)).check()
            self.assertEqual((raised.exception.cause, "cannot be pulled" in raised.exception.message), ("start-failed", True))
        for phase in ("Ready", "Draining", "Gone"):
            Hopeless(watch, State(phase)).check()
        Hopeless(None, State("Starting")).check()


if __name__ == "__main__":
    unittest.main()
