"""When a head counts as lost, and when as slow. Run by `go test ./keeper`."""

import http.server
import os
import socket
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.ray import addresses, dashboard
from rayctl_keeper.run.end.grace import Grace
from rayctl_keeper.run.head import silence as heads
from rayctl_keeper.state.exits import AttemptLost, End


ALIVE, NOTHING, GONE = (["the driver's process", "the GCS"], False), ([], False), ([], True)


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
        self.dashboard = dashboard.Dashboard("http://127.0.0.1:%d" % self.server.server_port, "")
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
        except dashboard.Unreachable as error:
            silence.goes_on(error)

    def silence(self, limit, *seen):
        """One whose looks find these, the last for ever."""
        self.state, looks = unittest.mock.Mock(doc={"phase": "Ready"}), list(seen)
        signs = lambda: looks.pop(0) if len(looks) > 1 else looks[0]
        clock = unittest.mock.Mock(monotonic=lambda: self.now)
        for module, name, value in ((dashboard, "time", clock), (heads, "time", clock), (heads, "LOOK", 1.0),
                                    (heads, "GONE_AFTER", 3.0), (heads, "WORTH_TELLING", 2.0)):
            patch = unittest.mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        return heads.Silence(self.dashboard, self.state, signs, limit)

    def test_any_answer_breaks_it(self):
        silence = self.silence(3.0, NOTHING)
        for _ in range(5):
            self.look(silence, version=60, nodes=0.05)
        self.assertEqual(silence.patience(), heads.PATIENT)
        self.state.note.assert_not_called()
        with self.assertRaises(AttemptLost) as lost:
            for _ in range(5):
                self.look(silence, nodes=0.05)
        self.assertIn("lifetime.silence", str(lost.exception))

    def test_what_lives_is_waited_for_and_told_once(self):
        silence = self.silence(3.0, ALIVE)
        for _ in range(20):
            self.look(silence, nodes=0.05)
        self.look(silence, version=60)
        self.assertEqual([c[0][:2] for c in self.state.note.call_args_list], [("head", "silent"), ("head", "answers")])
        self.assertIn("the driver's process and the GCS are alive", self.state.phase.call_args_list[0][0][2])
        self.assertEqual(self.state.phase.call_args_list[-1][0], ("Ready",))
        silence = self.silence(3.0, ALIVE, ALIVE, ALIVE, ALIVE, ALIVE, NOTHING)
        with self.assertRaises(AttemptLost):  # counted from when nothing was seen
            for self.asked in range(20):
                self.look(silence, nodes=0.05)
        self.assertEqual(self.asked, 9)

    def test_no_limit(self):
        silence = self.silence(0, NOTHING)
        for _ in range(20):
            self.look(silence, nodes=0.05)

    def test_what_is_known_to_be_gone_is_not(self):
        self.dashboard = dashboard.Dashboard("http://127.0.0.1:1", "")  # nobody listens
        silence = self.silence(1000.0, GONE)
        with self.assertRaises(AttemptLost):
            for self.asked in range(20):
                self.look(silence, nodes=1)
        self.assertEqual(self.asked, 4)

    def test_the_gcs(self):
        self.assertIs(heads.gcs_lives("127.0.0.1:1"), False)
        self.assertIsNone(heads.gcs_lives(""))
        with socket.create_server(("127.0.0.1", 0)) as stopped:  # the kernel accepts for a process that is stopped
            self.assertIs(heads.gcs_lives("127.0.0.1:%d" % stopped.getsockname()[1], 0.1), True)
        with socket.create_server(("127.0.0.1", 0)) as proxy:
            threading.Thread(target=lambda: proxy.accept()[0].close(), daemon=True).start()
            self.assertIsNone(heads.gcs_lives("127.0.0.1:%d" % proxy.getsockname()[1], 60))


class TheAddress(unittest.TestCase):
    """The resolver's answers are those of glibc: EAI_AGAIN after a while where no name server answers, EAI_NONAME where one answers that."""

    def setUp(self):
        self.answer, real = [], socket.getaddrinfo
        self.hold = threading.Event()
        self.hold.set()

        def resolve(host, port, *rest):
            if host != "head.test" or addresses.socket.AI_NUMERICHOST in rest:
                return real(host, port, *rest)
            self.hold.wait()
            if isinstance(self.answer, Exception):
                raise self.answer
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in self.answer]
        patch = unittest.mock.patch.object(addresses.socket, "getaddrinfo", resolve)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(self.hold.set)
        self.address = addresses.Address("head.test")

    def reaches(self, server):
        """Where a connection gets to."""
        with self.address.connect(server.getsockname()[1], 60) as connection:
            return connection.getpeername()[0]

    def test_the_last_that_worked_is_kept(self):
        with socket.create_server(("127.0.0.1", 0)) as first:
            self.answer = ["127.0.0.1"]
            self.assertEqual(self.reaches(first), "127.0.0.1")
            self.answer = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            with unittest.mock.patch.object(addresses, "FRESH", -1.0):
                for _ in range(3):
                    self.assertEqual(self.reaches(first), "127.0.0.1")
            self.hold.clear()  # nothing waits for the name service
            with unittest.mock.patch.object(addresses, "FRESH", -1.0):
                self.assertEqual(self.reaches(first), "127.0.0.1")

    def test_one_that_stops_answering_is_resolved_again(self):
        with socket.create_server(("127.0.0.1", 0)) as first:
            self.answer, port = ["127.0.0.1"], first.getsockname()[1]
            self.reaches(first)
        with socket.create_server(("127.0.0.2", port)) as moved:
            self.answer = ["127.0.0.2"]
            self.assertEqual(self.reaches(moved), "127.0.0.2")
        self.answer = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        with self.assertRaises(ConnectionRefusedError):
            self.address.connect(port, 60)
        self.assertTrue(self.address.unknown)

    def test_nothing_known(self):
        self.answer = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        with self.assertRaises(socket.gaierror):
            self.address.connect(1, 60)
        self.assertFalse(self.address.unknown)
        self.hold.clear()
        with self.assertRaises(OSError):
            self.address.connect(1, 0.05)


class TheGrace(unittest.TestCase):
    """Of a driver that is to be stopped."""

    def stop(self, *answers):
        """What the keeper asks of a dashboard whose `stop` gives these answers, one after another."""
        head, driver = unittest.mock.Mock(), unittest.mock.Mock()
        driver.program.return_value = {"state": "RUNNING", "submissionId": "n-1"}
        head.dashboard.stop.side_effect = answers
        head.dashboard.job.return_value, head.dashboard.json.return_value = {"status": "STOPPED"}, []
        grace = Grace({"name": "n", "job": {"grace": 3}}, head, driver, unittest.mock.Mock(now=False), unittest.mock.Mock(), lambda _: None)
        grace.stop_drivers(End("interrupted", "by the user"))
        return head.dashboard.stop.call_count, driver.take.call_count

    def test_a_slow_head_is_asked_again(self):
        self.assertEqual(self.stop(dashboard.Slow("timed out"), dashboard.Slow("timed out"), None), (3, 1))

    def test_a_head_that_is_gone_is_not(self):
        self.assertEqual(self.stop(dashboard.Unreachable("connection refused")), (1, 0))
        self.assertEqual(self.stop(dashboard.Refused(500, "no")), (1, 0))

    def test_slow_is_no_answer_in_time(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            with self.assertRaises(dashboard.Slow):
                dashboard.Dashboard("http://127.0.0.1:%d" % port, "").version(0.1)
        with self.assertRaises(dashboard.Unreachable) as refused:
            dashboard.Dashboard("http://127.0.0.1:%d" % port, "").version(0.1)
        self.assertNotIsInstance(refused.exception, dashboard.Slow)


if __name__ == "__main__":
    unittest.main()
