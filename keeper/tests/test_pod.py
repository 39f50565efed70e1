"""What is left of the API when the keeper in a pod has ended. Run by `go test ./keeper`."""

import http.client
import json
import os
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from rayctl_keeper.host.ports import free_ports
from rayctl_keeper.http import server
from rayctl_keeper.kubernetes import pod

RESULT = {"attempt": 3, "exit": {"cause": "succeeded"}}


class Ended(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir, self.handover = directory.name, pod.Handover()
        self.write("result.json", json.dumps(RESULT))
        serving = server.serve(pod.Handler, "127.0.0.1", 0, b"t0ken", look_every=0.05, run_dir=self.run_dir, handover=self.handover)
        self.addCleanup(serving.server_close)
        self.addCleanup(serving.shutdown)
        self.port = serving.server_port

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
        self.assertEqual(self.ask("GET", "/v1/attempts/2/log"), (200, ""))  # the record asks for each

    def test_token_before_body(self):
        """Nothing is read of a request without the token, nor of one that is too long."""
        huge = {"Content-Length": str(1 << 40)}
        for headers, want in ((dict(huge, Authorization="Bearer other"), 401), (huge, 401), (dict(huge, Authorization="Bearer t0ken"), 413)):
            status, text = self.ask("POST", "/v1/recorded", b"{}", headers.items())
            self.assertEqual((status, list(json.loads(text))), (want, ["error"]))
        self.assertEqual(self.ask("POST", "/v1/recorded", b"[", )[0], 400)
        self.assertIsNone(self.handover.outcome)

    def test_what_is_left(self):
        for method, path in (("GET", "/v1/nosuch"), ("PUT", "/v1/packages/package-x.zip")):
            status, text = self.ask(method, path, b"{}")
            self.assertEqual((status, json.loads(text)), (404, {"error": "the cluster has ended"}))
        for method, path in (("GET", "/v1/state"), ("POST", "/v1/end")):
            status, text = self.ask(method, path, b"{}")
            self.assertEqual((status, json.loads(text)), (200, RESULT))
        self.assertIsNone(self.handover.outcome)
        self.assertEqual(self.ask("POST", "/v1/recorded", b"{}")[0], 200)
        self.assertEqual(self.handover.wait(60), pod.RECORDED)
        self.assertEqual(self.ask("GET", "/v1/recorded"), (200, "{}"))
        self.handover.conclude(pod.SIGNALLED)
        self.assertEqual(self.handover.outcome, pod.RECORDED)

    def test_pod_that_must_end_before(self):
        """A request that waits for the record is answered at once, and before the process ends."""
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(self.ask("GET", "/v1/recorded")[0]))
        waiting.start()
        while not self.handover._answering:
            time.sleep(0.01)
        self.handover.conclude(pod.SIGNALLED)
        self.handover.drain(60)
        waiting.join(60)
        self.assertEqual((answers, self.handover.wait(60), self.handover._answering), ([504], pod.SIGNALLED, 0))


class Follows(unittest.TestCase):
    """A pod that waits for what the keeper before it knew."""

    def ask(self, port, method, path, token, body):
        """The status; None where the connection was closed without an answer."""
        until = time.monotonic() + 60
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request(method, path, body, {"Authorization": "Bearer " + token})
                return connection.getresponse().status
            except ConnectionRefusedError:  # it does not listen yet
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            except (http.client.RemoteDisconnected, ConnectionResetError):
                return None
            finally:
                connection.close()

    def test_takes_the_state_from_whom_has_the_token(self):
        port = free_ports("127.0.0.1", 1)[0]
        with tempfile.TemporaryDirectory() as top, unittest.mock.patch.multiple(pod, HOST="127.0.0.1", PORT=port, PREDECESSOR=60.0):
            waiting = threading.Thread(target=pod.await_predecessor, args=(top, top, b"t0ken"), daemon=True)
            waiting.start()
            state = json.dumps({"attempt": 2, "timeline": [{}]}).encode()
            for method, path, token in (("POST", "/v1/predecessor", "other"), ("POST", "/v1/end", "t0ken"), ("GET", "/v1/state", "t0ken"), ("PUT", "/v1/packages/x", "t0ken")):
                self.assertIsNone(self.ask(port, method, path, token, state), path)
            self.assertEqual(os.listdir(top), [])
            self.assertEqual(self.ask(port, "POST", "/v1/predecessor", "t0ken", state), 200)
            waiting.join(60)
            self.assertFalse(waiting.is_alive())
            with open(os.path.join(top, "state.json")) as f:
                self.assertEqual(json.load(f), {"attempt": 2, "timeline": [{}], "deadlines": {}})


if __name__ == "__main__":
    unittest.main()
