"""When a head counts as lost, and when as slow. Run as test_keeper.py is."""

import http.server
import os
import socket
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import keeper_end
import keeper_ray
from keeper_exit import AttemptLost, End


class SlowHead(http.server.BaseHTTPRequestHandler):
    """Answers one question at once, another later than anybody waits for, as the dashboard of a busy machine does."""

    def do_GET(self):
        if self.path != "/api/version":
            self.server.over.wait()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_args):
        pass


class TheSilence(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowHead)
        self.server.over = threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.dashboard = keeper_ray.Dashboard("http://127.0.0.1:%d" % self.server.server_port, "")
        self.now = 0.0  # the keeper's clock: a second for each question, however busy this machine is

    def tearDown(self):
        self.server.over.set()
        self.server.shutdown()
        self.server.server_close()

    def look(self, silence, **questions):
        try:
            for question, timeout in questions.items():
                self.now += 1
                self.dashboard.json("GET", "/api/" + question, timeout)
            silence.broken()
        except keeper_ray.Unreachable as error:
            silence.goes_on(error)

    def test_any_answer_breaks_it(self):
        silence, clock = keeper_ray.Silence(self.dashboard), unittest.mock.Mock(monotonic=lambda: self.now)
        with unittest.mock.patch.object(keeper_ray, "LOST_AFTER", 3.0), unittest.mock.patch.object(keeper_ray, "time", clock):
            for _ in range(5):
                self.look(silence, version=60, nodes=0.05)
            self.assertEqual(silence.patience(), keeper_ray.PATIENT)
            with self.assertRaises(AttemptLost):
                for _ in range(5):
                    self.look(silence, nodes=0.05)


class TheGrace(unittest.TestCase):
    """Of a driver that is to be stopped."""

    def stop(self, *answers):
        """What the keeper asks of a dashboard whose `stop` gives these answers, one after another."""
        keeper = unittest.mock.MagicMock(now=False, orders={"job": {"grace": 3}})
        keeper.state.doc = {"job": {"state": "RUNNING", "submissionId": "n-1"}}
        keeper.dashboard.stop.side_effect = answers
        keeper.dashboard.job.return_value = {"status": "STOPPED"}
        keeper_end.stop_driver(keeper, End("interrupted", "by the user"))
        return keeper.dashboard.stop.call_count, keeper.take.call_count

    def test_a_slow_head_is_asked_again(self):
        self.assertEqual(self.stop(keeper_ray.Slow("timed out"), keeper_ray.Slow("timed out"), None), (3, 1))

    def test_a_head_that_is_gone_is_not(self):
        self.assertEqual(self.stop(keeper_ray.Unreachable("connection refused")), (1, 0))
        self.assertEqual(self.stop(keeper_ray.Refused(500, "no")), (1, 0))

    def test_slow_is_no_answer_in_time(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            with self.assertRaises(keeper_ray.Slow):
                keeper_ray.Dashboard("http://127.0.0.1:%d" % port, "").version(0.1)
        with self.assertRaises(keeper_ray.Unreachable) as refused:
            keeper_ray.Dashboard("http://127.0.0.1:%d" % port, "").version(0.1)
        self.assertNotIsInstance(refused.exception, keeper_ray.Slow)


if __name__ == "__main__":
    unittest.main()
