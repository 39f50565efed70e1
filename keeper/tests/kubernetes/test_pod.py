"""A keeper in a pod hands over its result, and follows another pod's. Run by `go test ./keeper`."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.host.ports import free_ports
from rayctl_keeper.kubernetes import pod

KEEPER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULT = {"revision": 9, "attempt": 3, "job": {"logFile": "job-driver-n-3.log"}, "exit": {"cause": "succeeded"}}


class Ended(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir, self.port = directory.name, free_ports("127.0.0.1", 1)[0]
        orders = {"version": 1, "name": "n", "launcher": "kuberay", "lifetime": {}, "groups": [{"name": "head", "count": 1}], "job": None,
                  "start": {"mode": "external"}, "listen": "127.0.0.1:%d" % self.port}
        for name, text in (("result.json", json.dumps(RESULT)), ("orders.json", json.dumps(orders)), ("token", "t0ken"), ("claim", "{}")):
            self.write(name, text)

    def begin(self):
        """The keeper that pod.py starts when the one before was killed."""
        keeper = subprocess.Popen([sys.executable, KEEPER, "pod-keeper", self.run_dir])
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        return keeper

    def write(self, name, text):
        with open(os.path.join(self.run_dir, name), "w") as f:
            f.write(text)

    def ask(self, method, path, body=None, headers=(("Authorization", "Bearer t0ken"),)):
        until = time.monotonic() + 60
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.request(method, path, body, dict(headers))
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except ConnectionRefusedError:  # it does not listen yet
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            finally:
                connection.close()

    def test_log_of_each_attempt(self):
        """As before the end (docs/keeper.md)."""
        self.write("driver-1.log", "first\n")
        self.write("driver.log", "third\n")
        self.begin()
        for query, want in (("", "third\n"), ("?attempt=0", "third\n"), ("?attempt=3&offset=2", "ird\n"), ("?attempt=1", "first\n"), ("?offset=1&attempt=1", "irst\n")):
            self.assertEqual(self.ask("GET", "/v1/log" + query), (200, want), query)
        status, text = self.ask("GET", "/v1/log?attempt=2")
        self.assertEqual((status, json.loads(text)), (404, {"error": "there is no output of attempt 2 here"}))

    def test_attempt_without_output(self):
        """The last one's driver may not have run."""
        self.begin()
        self.assertEqual(self.ask("GET", "/v1/log?attempt=3"), (200, ""))
        self.assertEqual(self.ask("GET", "/v1/log"), (200, ""))

    def test_token_before_body(self):
        """Nothing is read of a request without the token, nor of one that is too long."""
        keeper = self.begin()
        huge = {"Content-Length": str(1 << 40)}
        for headers, want in ((dict(huge, Authorization="Bearer other"), 401), (huge, 401), (dict(huge, Authorization="Bearer t0ken"), 413)):
            status, text = self.ask("POST", "/v1/recorded", b"{}", headers.items())
            self.assertEqual((status, list(json.loads(text))), (want, ["error"]))
        self.assertEqual(self.ask("POST", "/v1/recorded", b"[", )[0], 400)
        self.assertIsNone(keeper.poll())

    def test_what_is_left(self):
        keeper = self.begin()
        for method, path, want in (("GET", "/v1/nosuch", "no such call: GET /v1/nosuch"), ("PUT", "/v1/packages/package-x.zip", "the cluster has ended")):
            status, text = self.ask(method, path, b"{}")
            self.assertEqual((status, json.loads(text)), (404, {"error": want}))
        for method, path in (("GET", "/v1/state"), ("POST", "/v1/end"), ("POST", "/v1/commit")):
            status, text = self.ask(method, path, b"{}")
            self.assertEqual((status, json.loads(text)), (200, RESULT))
        self.assertIsNone(keeper.poll())

    def test_ends_when_it_is_recorded(self):
        """Who has seen the end, and has its connection still, gets an answer to whether it is recorded."""
        keeper = self.begin()
        self.assertEqual(self.ask("GET", "/v1/state?after=0")[0], 200)
        watching = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(watching.close)
        token = {"Authorization": "Bearer t0ken"}
        watching.request("GET", "/v1/state?after=0", headers=token)
        self.assertEqual(json.loads(watching.getresponse().read().decode()), RESULT)
        watching.request("GET", "/v1/recorded", headers=token)
        self.assertEqual(self.ask("POST", "/v1/recorded", b"{}"), (200, json.dumps(RESULT)))
        self.assertEqual(watching.getresponse().read(), b"{}")
        self.assertEqual(keeper.wait(60), 0)

    def test_pod_that_must_end_before(self):
        """A question for the record is answered at once, and before the process ends."""
        keeper = self.begin()
        self.assertEqual(self.ask("GET", "/v1/state")[0], 200)
        waiting = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(waiting.close)
        waiting.request("GET", "/v1/recorded", headers={"Authorization": "Bearer t0ken"})
        waiting.sock.settimeout(0.2)
        with self.assertRaises(socket.timeout):
            waiting.sock.recv(1)
        waiting.sock.settimeout(60)
        keeper.send_signal(signal.SIGTERM)
        self.assertEqual(waiting.getresponse().status, 504)
        self.assertEqual(keeper.wait(60), 1)


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
            for method, path, token, want in (("POST", "/v1/predecessor", "other", 401), ("POST", "/v1/end", "t0ken", None), ("GET", "/v1/state", "t0ken", None),
                                              ("PUT", "/v1/packages/x", "t0ken", None)):
                self.assertEqual(self.ask(port, method, path, token, state), want, path)
            self.assertEqual(os.listdir(top), [])
            self.assertEqual(self.ask(port, "POST", "/v1/predecessor", "t0ken", state), 200)
            waiting.join(60)
            self.assertFalse(waiting.is_alive())
            with open(os.path.join(top, "state.json")) as f:
                self.assertEqual(json.load(f), {"attempt": 2, "timeline": [{}], "deadlines": {}})


if __name__ == "__main__":
    unittest.main()
