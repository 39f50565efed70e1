"""A node's setup failed, and the keeper does not take that. Run by `go test ./keeper`."""

import http.server
import os
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Ended(http.server.BaseHTTPRequestHandler):
    """A keeper whose cluster has ended."""

    def do_POST(self):
        self.send_error(404)

    def log_message(self, *_args):
        pass


class Report(unittest.TestCase):
    def test_keeper_that_does_not_take_it(self):
        """Then the pod prints it."""
        server = http.server.HTTPServer(("127.0.0.1", 0), Ended)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        with tempfile.TemporaryDirectory() as top:
            log = os.path.join(top, "log")
            for path, text in ((log, "first\nno licence\n"), (log + ".whole", "")):
                with open(path, "w") as f:
                    f.write(text)
            env = dict(os.environ, RAYCTL_KEEPER="http://127.0.0.1:%d" % server.server_port, RAYCTL_KEEPER_TOKEN="t0ken")
            out = subprocess.run([sys.executable, "-E", "-s", "-B", os.path.dirname(HERE), "report", log], env=env, check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = out.stdout.decode()
        self.assertEqual(out.returncode, 0, said)
        self.assertRegex(said, r"^the keeper could not be notified \(HTTP Error 404: .*\): setup failed on .*: first; no licence\n$")


if __name__ == "__main__":
    unittest.main()
