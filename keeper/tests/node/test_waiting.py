"""The head's thread that tells the keeper what waits for resources that no node can have. Run by `go test ./keeper`."""

import json
import os
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.rayhook import leave, waiting


class Over(BaseException):
    """The end of the test in the thread's loop."""


class Tells(unittest.TestCase):
    def told(self, settings, looks, statuses):
        """The requests of so many looks; the keeper answers with these statuses, an exception is raised."""
        with unittest.mock.patch.object(waiting.time, "sleep", side_effect=[None] * len(looks) + [Over]) as slept, \
                unittest.mock.patch.object(waiting, "_waits", side_effect=looks), unittest.mock.patch.object(waiting, "_client"), \
                unittest.mock.patch.object(leave, "request", side_effect=statuses) as request:
            try:
                waiting._report(settings)
            except Over:
                pass
        self.slept = {call[0][0] for call in slept.call_args_list}
        return [(call[0][0], call[0][1:3], json.loads(call[0][3].decode())["unmet"], call[0][4]) for call in request.call_args_list]

    def test_in_a_pod(self):
        found = self.told({"keeper": "http://k:1", "groups": {}, "most": 0}, [[], ["a"], ["a"], [], []], [200] * 3)
        self.assertEqual(found, [("http://k:1", ("POST", "/v1/nodes"), waits, None) for waits in (["a"], ["a"], [])])
        self.assertEqual(self.slept, {waiting.SELDOM})
        self.told({"keeper": "http://k:1", "groups": {"w": {}}, "most": 0}, [[]], [])
        self.assertEqual(self.slept, {waiting.LOOK})

    def test_away(self):
        """A GCS or a keeper that does not answer is asked again; what was not told is told later."""
        found = self.told({"keeper": "http://k:1", "groups": {}, "most": 0}, [["a"], RuntimeError("the GCS is away"), [], [], []], [200, OSError(), 503, 200])
        self.assertEqual([waits for _, _, waits, _ in found], [["a"], [], [], []])
        self.assertEqual(len(self.told({"keeper": "http://k:1", "groups": {}, "most": 0}, [AttributeError("Ray is half imported"), ["a"]], [200])), 1)

    def test_of_a_run_directory(self):
        """The keeper's address may change with the keeper."""
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "token"), "w") as f:
                f.write("t0ken\n")
            with open(os.path.join(directory, "state.json"), "w") as f:
                json.dump({"keeper": {"url": "http://127.0.0.1:7"}, "head": {"address": "127.0.0.1:8"}}, f)
            with unittest.mock.patch.dict(os.environ, waiting.settings(directory)):
                settings = waiting.take()
                self.assertNotIn(waiting.VARIABLE, os.environ)
            self.assertEqual(self.told(settings, [["a"]], [200]), [("http://127.0.0.1:7", ("POST", "/v1/nodes"), ["a"], "t0ken")])


if __name__ == "__main__":
    unittest.main()
