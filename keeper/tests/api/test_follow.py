"""GET /v1/log?follow=1: the output of an attempt as it grows."""

import http.client
import os
import resource
import sys
import tempfile
import threading
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.http import api
from rayctl_keeper.node.files import nodedir


class State:
    """Of the document only what the API asks for here."""

    def __init__(self):
        self.doc, self.handed_over = {"attempt": 1}, False

    def left(self, _connection):
        pass

    def answering(self, _count):
        pass


class Follow(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.run_dir, self.node = os.path.join(top.name, "run"), os.path.join(top.name, "node")
        self.logs = os.path.join(nodedir.rays(self.node), "session_2026", "logs")
        for path in (self.run_dir, self.logs):
            os.makedirs(path)
        self.log = DriverLog(self.run_dir, None, lambda text: None)
        self.address = api.serve("127.0.0.1:0", "secret", self.run_dir, State(), self.log, None)

    def program(self, name):
        """A program of the run begins; its file."""
        f = open(os.path.join(self.logs, name), "ab", buffering=0)
        self.addCleanup(f.close)
        self.log.begin(name, "node", [self.node], stream=True)
        return f

    def follow(self, **query):
        """A response of which nothing was read."""
        connection = self.connection = http.client.HTTPConnection(*self.address, timeout=30)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/log?follow=1&" + "&".join("%s=%s" % pair for pair in query.items()), headers={"Authorization": "Bearer secret"})
        response = connection.getresponse()
        self.assertEqual((response.status, response.getheader("Transfer-Encoding")), (200, "chunked"))
        return response

    def test_as_it_grows(self):
        """Before the driver begins, line by line, and to the end; a second one from an offset."""
        response = self.follow(attempt=1)
        driver = self.program("job-driver-n-1.log")
        for line in (b"first\n", b"second\n", b"\xff\x00" * 1000):
            driver.write(line)
            self.assertEqual(response.read(len(line)), line)
        other = self.follow(attempt=1, offset=6)
        self.assertEqual(other.read(7), b"second\n")
        driver.write(b"last")
        self.log.finish(reachable=True)
        self.log.close()
        self.assertEqual((response.read(), other.read()), (b"last", b"\xff\x00" * 1000 + b"last"))

    def test_truncated(self):
        """What the copy has is what everybody gets, the note of the gap among it."""
        driver, response = self.program("job-driver-n-1.log"), self.follow(attempt=1)
        driver.write(b"before\n")
        self.assertEqual(response.read(7), b"before\n")
        driver.truncate(0)
        driver.write(b"after\n")
        note = b"\nrayctl: the log was truncated here, and output may be missing\n"
        self.assertEqual(response.read(len(note) + 6), note + b"after\n")
        self.log.finish(reachable=True)
        self.log.close()
        with open(os.path.join(self.run_dir, "driver.log"), "rb") as f:
            self.assertEqual(f.read(), b"before\n" + note + b"after\n")
        self.assertEqual((response.read(), self.log.missing), (b"", [[7, 7]]))

    def test_prepare_alone(self):
        """What job.prepare prints ends where the driver's begins; whoever wants both gets both."""
        prepare, both, driver_alone = self.follow(attempt=1, prepare=1), self.follow(attempt=1), self.follow(attempt=1, offset=6)
        f = self.program("job-driver-n-prepare-1.log")
        f.write(b"loads\n")
        self.assertEqual(prepare.read(6), b"loads\n")
        self.log.finish(reachable=True)
        self.log.goes_before("job-driver-n-prepare-1.log", "node", self.log.size)
        self.program("job-driver-n-1.log").write(b"drives\n")
        self.assertEqual((prepare.read(), both.read(13), driver_alone.read(7)), (b"", b"loads\ndrives\n", b"drives\n"))

    def test_next_attempt(self):
        """An attempt's output ends when the next one begins, also for who asks for it then."""
        first, second = self.follow(attempt=1), self.follow(attempt=2)
        self.program("job-driver-n-1.log").write(b"one\n")
        self.assertEqual(first.read(4), b"one\n")
        self.log.finish(reachable=True)
        self.log.put_aside()
        self.program("job-driver-n-2.log").write(b"two\n")
        self.assertEqual((first.read(), second.read(4), self.follow(attempt=1).read()), (b"", b"two\n", b"one\n"))

    def test_another_keeper_goes_on(self):
        """A connection that ends before the last chunk shows that there is more."""
        response = self.follow(attempt=1)
        self.program("job-driver-n-1.log").write(b"one\n")
        self.assertEqual(response.read(4), b"one\n")
        self.log.leave()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            response.read()

    def test_many(self):
        """Each of many followers gets every byte, of those who come later as well."""
        driver, first = self.program("job-driver-n-1.log"), [self.follow(attempt=1) for _ in range(60)]
        text = b"".join(b"line %d\n" % i for i in range(40000))
        for begin in range(0, len(text), 50000):
            driver.write(text[begin:begin + 50000])
        late = [self.follow(attempt=1, offset=offset) for offset in range(20)]
        self.log.finish(reachable=True)
        self.log.close()
        for response in first:
            self.assertEqual(response.read(), text)
        for offset, response in enumerate(late):
            self.assertEqual(response.read(), text[offset:])

    def test_after_a_gigabyte(self):
        """A long log takes no memory here, and whose connection was cut gets the new bytes only."""
        self.program("job-driver-n-1.log").write(b"begin\n")
        self.log.finish(reachable=True)
        with open(os.path.join(self.run_dir, "driver.log"), "r+b") as f:
            f.truncate(1 << 30)  # no disk is needed for it
            f.seek(0, os.SEEK_END)
            f.write(b"last\n")
        self.log.close()
        before, size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
        response = self.follow(attempt=1)
        while True:
            block = response.read(1 << 20)
            if not block:
                break
            size, last = size + len(block), block
        self.assertEqual((size, last[-5:]), ((1 << 30) + 5, b"last\n"))
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 30 << 10)
        self.assertEqual(self.follow(attempt=1, offset=1 << 30).read(), b"last\n")

    def test_client_that_left(self):
        """Its thread ends, though nothing is printed."""
        before = set(threading.enumerate())  # those of other tests among them, which may end meanwhile
        with unittest.mock.patch.object(api, "SILENT", 0.1):
            response = self.follow(attempt=1)
            (serving,) = set(threading.enumerate()) - before
            response.close()
            self.connection.close()
            serving.join(15)
        self.assertFalse(serving.is_alive(), "it is still served")


if __name__ == "__main__":
    unittest.main()
