"""The output of submitted jobs, from Ray's state API, and what the record gets of it. Run by `go test ./keeper`."""

import http.server
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.kubernetes import record
from rayctl_keeper.node.files import jobpack, joblogs
from rayctl_keeper.ray.dashboard import Dashboard
from rayctl_keeper.run.job import outputs
from rayctl_keeper.run.job.outputs import Ends, Outputs

PATIENCE = 60.0  # seconds for what must happen


class Logs(http.server.BaseHTTPRequestHandler):
    """Ray's state API with some logs, in chunks as Ray sends them; `cut` of them are sent half, `gone` not at all."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url, world = urllib.parse.urlsplit(self.path), self.server
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/api/version":
            return self.send(200, b'{"ray_version": "2.60.0"}')
        name = query["filename"]
        world.asked.append(name)
        if name in world.gone:
            return self.send(500, b"Agent for node id not found")
        text = world.logs[name]
        if int(query["lines"]) > 0:
            text = b"".join(text.splitlines(True)[-int(query["lines"]):])
        cut = world.cut.get(name, 0) > 0
        world.cut[name] = world.cut.get(name, 0) - 1
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (text[:len(text) // 2],) if cut else (text[:200], text[200:]):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if part else b"")
        self.close_connection = True
        self.wfile.write(b"" if cut else b"0\r\n\r\n")

    def send(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format, *args):
        pass


class Rig(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.run_dir, self.said = top.name, []
        self.head = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Logs)
        self.head.daemon_threads = True
        self.head.logs, self.head.cut, self.head.gone, self.head.asked = {}, {}, set(), []
        threading.Thread(target=self.head.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(self.head.server_close)
        self.addCleanup(self.head.shutdown)
        again = unittest.mock.patch.object(outputs, "AGAIN", 0.01)
        again.start()
        self.addCleanup(again.stop)

    def job(self, name, end, text, status="SUCCEEDED"):
        """Ray's record of a job that has printed something."""
        self.head.logs["job-driver-%s.log" % name] = text
        return {"submission_id": name, "status": status, "driver_node_id": "h", "start_time": 1, "end_time": end}

    def outputs(self, one=1000, most=10000):
        return Outputs(self.run_dir, (one, most), lambda: Dashboard("http://127.0.0.1:%d" % self.head.server_address[1], "t"), self.said.append)

    def taken(self, taking):
        """Waits until all is taken; what is kept, the newest first."""
        end = time.monotonic() + PATIENCE
        while not taking.finish(float("inf")):
            self.assertLess(time.monotonic(), end)
            threading.Event().wait(0.005)
        found = []
        for path in jobpack.newest_first(os.path.join(self.run_dir, "jobs")):
            with open(path, "rb") as f:
                found.append((os.path.basename(path), f.read()))
        return found


class Takes(Rig):
    def test_what_has_ended(self):
        """Once, as bytes, also over connections that are cut; at the cluster's end also of what runs."""
        jobs = [self.job("a", 1000, b"first\n\xff\r\n"), self.job("b", 3000, b"x" * 999), self.job("\u00fc \n'", 2000, b""), self.job("runs", None, b"so far", "RUNNING"),
                dict(self.job("never ran", 9000, b""), driver_node_id=None), self.job("a/b", 9000, b"")]
        self.head.cut["job-driver-b.log"] = 2
        taking = self.outputs()
        taking.want(jobs)
        want = [("b.log", b"x" * 999), ("\u00fc \n'.log", b""), ("a.log", b"first\n\xff\r\n")]
        self.assertEqual(self.taken(taking), want)
        asked = len(self.head.asked)
        self.assertEqual(asked, 5)
        taking.want(jobs)
        self.outputs().want(jobs)  # of a keeper that was started again in its pod
        self.assertEqual((self.taken(taking), len(self.head.asked)), (want, asked))
        self.head.logs["job-driver-a.log"] = b"again"
        taking.want([self.job("a", 4000, b"again"), jobs[3]], running=True)
        self.assertEqual(self.taken(taking), [("runs.log", b"so far"), ("a.log", b"again")] + want[:2])
        self.assertEqual(os.stat(os.path.join(self.run_dir, "jobs", "a.log")).st_mode & 0o777, 0o600)

    def test_what_cannot_be_had(self):
        """A node that is gone keeps nothing from being taken, and is not asked for ever."""
        self.head.gone.add("job-driver-b.log")
        taking, jobs = self.outputs(), [self.job("a", 1000, b"a"), self.job("b", 2000, b"b")]
        for _ in range(3):
            taking.want(jobs)
            self.assertEqual(self.taken(taking), [("a.log", b"a")])
        self.assertEqual((self.head.asked.count("job-driver-b.log"), self.head.asked.count("job-driver-a.log")), (outputs.TRIES, 1))
        self.assertIn("the output of job b: Refused: Agent for node id not found", self.said)

    def test_bounds(self):
        """The oldest go, and are not asked for again."""
        taking, jobs = self.outputs(8, 20), [self.job("%d" % n, 1000 * n, b"01234567") for n in range(1, 5)]
        for _ in range(2):
            taking.want(jobs)
            self.assertEqual([name for name, _ in self.taken(taking)], ["4.log", "3.log"])
        self.assertEqual(len(self.head.asked), 3)
        with unittest.mock.patch.object(outputs, "MOST", 1):
            taking.want(jobs + [self.job("5", 5000, b"5")])
            self.assertEqual([name for name, _ in self.taken(taking)], ["5.log"])
        for one, most in ((0, 20), (8, 0)):
            taking = self.outputs(one, most)
            taking.want([self.job("6", 6000, b"6")])
            self.assertEqual([name for name, _ in self.taken(taking)], ["5.log"])

    def test_no_time(self):
        """Of an output that takes too long the beginning and the end; none of those for which there is no time at all."""
        text = b"".join(b"line %d\n" % n for n in range(3000))
        taking = self.outputs(400, 10000)
        with unittest.mock.patch.object(outputs, "READS", -1.0):
            taking.want([self.job("long", 1000, text)])
            self.assertEqual(self.taken(taking), [("long.log", text[:100] + joblogs.UNREAD + text[-300:])])
        taking.finish(0.0)
        taking.want([self.job("late", 2000, b"late")])
        end = time.monotonic() + PATIENCE
        while not taking.finish(0.0):
            self.assertLess(time.monotonic(), end)
        self.assertEqual([name for name, _ in self.taken(taking)], ["long.log"])

    def test_ends(self):
        """As the supervisors keep them, whatever blocks arrive."""
        rolls = random.Random(1)
        for size in (0, 1, 7, 8, 9, 30, 1000):
            text, one = bytes(rolls.randrange(256) for _ in range(size)), 8
            got, at = Ends(*joblogs.ends(one)), 0
            while at < size:
                step = rolls.randrange(1, 20)
                got.add(text[at:at + step])
                at += step
            path, copy = os.path.join(self.run_dir, "log"), os.path.join(self.run_dir, "copy")
            with open(path, "wb") as f:
                f.write(text)
            joblogs.copy(path, copy, one)
            kept = b""
            if size:
                with open(copy, "rb") as f:
                    kept = f.read()
            self.assertEqual(b"".join(got.parts()), kept)


class Packs(Rig):
    def keep(self, one=8 << 20, **texts):
        """What a keeper has kept: the later ones are newer."""
        orders = {"lifetime": {"keepOutput": one, "keepOutputTotal": 64 << 20}, "start": {"mode": "external"}}
        records = [{"submission_id": name, "status": "SUCCEEDED"} for name in texts]
        for name, content in (("orders.json", orders), ("submissions.json", records)):
            with open(os.path.join(self.run_dir, name), "w") as f:
                json.dump(content, f)
        os.makedirs(os.path.join(self.run_dir, "jobs"), exist_ok=True)
        for age, (name, text) in enumerate(texts.items()):
            path = os.path.join(self.run_dir, "jobs", name + ".log")
            with open(path, "wb") as f:
                f.write(text)
            os.utime(path, (age, age))

    def packed(self, room):
        """The names and contents, in their order."""
        jobpack.write(self.run_dir, room)
        path = os.path.join(self.run_dir, "jobs.tgz")
        self.assertLessEqual(os.path.getsize(path), room)
        with tarfile.open(path) as files:
            return [(f.name, files.extractfile(f).read()) for f in files]

    def test_all(self):
        long = "n" * 150
        self.keep(**{"a": b"first\n\xff", "\u00fc \n'": b"", long: b"long name"})
        found = self.packed(1 << 20)
        self.assertEqual([r["submission_id"] for r in json.loads(found[0][1].decode())], ["a", "\u00fc \n'", long])
        self.assertEqual(found[1:], [("jobs/%s.log" % long, b"long name"), ("jobs/\u00fc \n'.log", b""), ("jobs/a.log", b"first\n\xff")])

    def test_too_little_room(self):
        """The newest, of which the last one is shortened: its gap is that of both cuts."""
        one, noise = 400000, random.Random(1)
        whole = bytes(noise.getrandbits(8) for _ in range(700000))
        path, kept = os.path.join(self.run_dir, "log"), os.path.join(self.run_dir, "kept")
        with open(path, "wb") as f:
            f.write(whole)
        joblogs.copy(path, kept, one)
        with open(kept, "rb") as f:
            kept = f.read()
        self.assertIn(joblogs.GAP % 300000, kept)
        self.keep(one, old=whole[:100000], shortened=kept, new=b"new")
        (records, _), (new, _), (name, text) = self.packed(300000)
        self.assertEqual((records, new, name), ("submissions.json", "jobs/new.log", "jobs/shortened.log"))
        most = len(kept) // 2
        head, tail = joblogs.ends(most)
        self.assertEqual(text, whole[:head] + joblogs.GAP % (len(whole) - most) + whole[-tail:])

    def test_many_records(self):
        """The newest of them."""
        noise = random.Random(1)
        self.keep(**{"%x" % noise.getrandbits(200): b"x" for _ in range(2000)})
        found = self.packed(50000)
        with open(os.path.join(self.run_dir, "submissions.json")) as f:
            records = json.load(f)
        kept = json.loads(found[0][1].decode())
        self.assertEqual(kept, records[-len(kept):])
        self.assertGreater(len(kept), 200)

    def test_printed(self):
        """The record's lines can be unpacked by the command in the first of them."""
        self.keep(a=bytes(random.Random(1).getrandbits(8) for _ in range(40000)))
        jobpack.write(self.run_dir)
        out = io.BytesIO()
        with unittest.mock.patch.object(record.sys, "stdout", unittest.mock.Mock(buffer=out)):
            record.show_jobs(os.path.join(self.run_dir, "jobs.tgz"))
        self.assertLess(max(map(len, out.getvalue().splitlines())), 16 << 10)
        command = out.getvalue().splitlines()[0].decode().partition("job/NAME-record | ")[2]
        target = os.path.join(self.run_dir, "unpacked")
        os.mkdir(target)
        subprocess.run(["sh", "-c", command], input=out.getvalue(), cwd=target, check=True)
        with open(os.path.join(target, "jobs", "a.log"), "rb") as one, open(os.path.join(self.run_dir, "jobs", "a.log"), "rb") as other:
            self.assertEqual(one.read(), other.read())


if __name__ == "__main__":
    unittest.main()
