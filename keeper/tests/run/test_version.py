"""Which Ray a cluster may have. Run by `go test ./keeper`."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.run.gang.gang import Gang
from rayctl_keeper.state.document import State
from rayctl_keeper.state.exits import End


class Versions(unittest.TestCase):
    def greet(self, wanted, version):
        """The refusal of a head that answers with this version of Ray; None if it is taken."""
        class Nodes:
            external, extra, gcs, dashboard, client_port = True, {}, "h:6379", "http://h:8265", None

            def token_file(self):
                return ""
        orders = {"name": "n", "attempt": 1, "ray": wanted, "groups": [{"name": "head", "count": 1}]}
        with tempfile.TemporaryDirectory() as directory:
            gang = Gang(orders, Nodes(), State(orders, directory, lambda text: None))
            try:
                gang.greet({"ray_version": version, "session_name": "s"})
            except End as end:
                return str(end.args), end.retryable
            self.assertEqual(gang.state.doc["head"]["rayVersion"], version)

    def test_wanted(self):
        self.assertIsNone(self.greet({}, "2.9.3"))
        self.assertIsNone(self.greet({"version": "2.60.0"}, "2.60.0"))
        self.assertIn("the cluster has Ray 2.55.1, but ray.version asks for 2.60.0", self.greet({"version": "2.60.0"}, "2.55.1")[0])

    def test_least(self):
        """An image of which nothing says which Ray it has: a token that Ray does not check would leave the cluster open."""
        for version in "2.53.0", "2.60.0", "3.0.0.dev0", "":
            self.assertIsNone(self.greet({"least": "2.53.0"}, version))
        for version in "2.9.3", "2.52.1":
            why, retryable = self.greet({"least": "2.53.0"}, version)
            self.assertIn("set ray.version to " + version, why)
            self.assertFalse(retryable)


if __name__ == "__main__":
    unittest.main()
