"""A client that sends packages is alive. Run by `go test ./keeper`."""

import http.client
import os
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.http import api
from rayctl_keeper.http.mail import Mailbox
from rayctl_keeper.run.limits.limits import Limits
from rayctl_keeper.state.document import State

LEASE = 1000.0


class Quiet:
    """A bell that nobody waits for: the test reads the mail itself."""

    def ring(self):
        pass


class AnUpload(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        orders = {"name": "n", "launcher": "kuberay", "lifetime": {}, "groups": [{"name": "head", "count": 1}], "job": None}
        self.limits = Limits({"lease": LEASE}, time.monotonic() - LEASE + 1)  # it falls due in a second
        self.run_dir, state = directory.name, State(orders, directory.name, lambda _: None)
        self.box = Mailbox(self.run_dir, Quiet(), state, self.limits, lambda text: None)
        _, port = api.serve("127.0.0.1:0", "t0ken", self.run_dir, state, None, self.box)
        self.client = http.client.HTTPConnection("127.0.0.1", port)
        self.addCleanup(self.client.close)

    def begin(self, size):
        self.client.putrequest("PUT", "/v1/packages/package-x.zip")
        self.client.putheader("Authorization", "Bearer t0ken")
        self.client.putheader("Content-Length", str(size))
        self.client.endheaders()

    def left_of_lease(self):
        self.box.read_mail([])
        return self.limits.due("lease") - time.monotonic()

    def test_each_piece_renews_the_lease(self):
        self.begin(2)
        self.assertLess(self.left_of_lease(), 2)
        self.client.send(b"a")  # far less than is read at once
        until = time.monotonic() + 60
        while self.left_of_lease() < LEASE / 2:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        self.client.send(b"b")
        self.assertEqual(self.client.getresponse().status, 200)
        with open(os.path.join(self.run_dir, "package-x.zip"), "rb") as f:
            self.assertEqual(f.read(), b"ab")

    def test_a_committed_launch_has_none(self):
        self.limits.seconds["disconnect"] = 0.0
        self.box.take_commit({})
        self.box.read_mail([])
        self.box.hear()
        self.box.read_mail([])
        self.assertIsNone(self.limits.due("lease"))


if __name__ == "__main__":
    unittest.main()
