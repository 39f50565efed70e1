"""What is left of the API when the keeper in a pod has ended. Run by `go test ./keeper`."""

import http.client
import http.server
import json
import os
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from rayctl_keeper.kubernetes import pod

RESULT = {"attempt": 3, "exit": {"cause": "succeeded"}}


class Ended(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir, self.done = directory.name, threading.Event()
        self.write("result.json", json.dumps(RESULT))
        handler = type("Bound", (pod.Handler,), {"run_dir": self.run_dir, "token": b"t0ken", "done": self.done, "signalled": threading.Event(), "answering": []})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.port = server.server_port

    def write(self, name, text):
        with open(os.path.join(self.run_dir, name), "w") as f:
            f.write(text)

    def ask(self, method, path, body=None, headers=(("Authorization", "Bearer t0ken"),)):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def test_log_of_each_attempt(self):
        """As the keeper's own API has them (docs/keeper.md)."""
        self.write("driver-1.log", "first\n")
        self.write("driver.log", "third\n")
        for query, want in (("", "third\n"), ("?attempt=0", "third\n"), ("?attempt=3&offset=2", "ird\n"), ("?attempt=1", "first\n"), ("?offset=1&attempt=1", "irst\n")):
            self.assertEqual(self.ask("GET", "/v1/log" + query), (200, want), query)
        status, text = self.ask("GET", "/v1/log?attempt=2")
        self.assertEqual((status, json.loads(text)), (404, {"error": "there is no output of attempt 2 here"}))

    def test_attempt_without_output(self):
        """The last one's driver may not have run."""
        self.assertEqual(self.ask("GET", "/v1/log?attempt=3"), (200, ""))
        self.assertEqual(self.ask("GET", "/v1/log"), (200, ""))


if __name__ == "__main__":
    unittest.main()
