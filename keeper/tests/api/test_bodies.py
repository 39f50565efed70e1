"""No request ends a keeper, whatever its body. Run by `go test ./keeper` with the bodies in bodies.json and a few random ones; `python3 test_bodies.py fuzz SECONDS`
searches for more, and prints those that a keeper does not take well.

It is the keeper's own API, mailbox and life, but for nodes: the main thread's part runs in this process."""

import copy
import http.client
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.host import process
from rayctl_keeper.http import api
from rayctl_keeper.run.life import Keeper
from rayctl_keeper.run.nodes.external import External
from rayctl_keeper.run.nodes.spawned import Spawned
from rayctl_keeper.state.document import State
from rayctl_keeper.state.exits import AttemptLost, End

# Each call with a body that it takes.
CALLS = (
    ("/v1/commit", {"packages": [{"uri": "gcs://_ray_pkg_0.zip", "file": "package-0.zip"}], "runtimeEnv": {"env_vars": {"A": "b"}, "pip": ["x"]}}),
    ("/v1/renew", {}),
    ("/v1/end", {"cause": "down", "message": "over", "grace": 1.5, "by": "u@h", "now": True}),
    ("/v1/extend", {"max": 3600, "later": True, "atMost": True, "maxBy": 60, "idle": 60}),
    ("/v1/disconnect", {"after": 60}),
    ("/v1/leaving", {"seconds": 30, "by": "pod"}),
    ("/v1/ended", {"message": "raylet was ended", "by": "pod"}),
    ("/v1/nodes", {"launch": {"type": "e", "count": 1, "request": "r"}, "release": ["a"], "unmet": ["{'CPU': 9}"], "held": {"e": 2}}),
    ("/v1/scale", {"sizes": [{"group": "e", "min": 1, "max": 3}]}),
    ("/v1/scale", {"group": "e", "min": 0, "max": None}),
    ("/v1/change", {"specHash": "x", "lifetime": {"max": 3600, "idle": 60, "idleGpu": 60}, "groups": {"head": [1, 1, 1], "e": [0, 4, 1]}, "scaling": {"idle": 60, "upscalingSpeed": 1.0},
                    "check": False}),
    ("/v1/granted", {"part": "gang", "at": 1.7e9}),
    ("/v1/granted", {"part": "worker", "group": "w", "pod": "p", "at": 1.7e9}),
    ("/v1/gpus", {"node": "h", "begun": "b", "count": 8, "seconds": 60.0, "busySeconds": 30.0, "idle": 0, "message": ""}),
    ("/v1/offers", {"id": "1", "job": "4711", "error": "", "take": True}),
    ("/v1/recorded", {}),
)
ODD = (None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e-320, 1e10, 1e11, 1e17, 1e300, 10 ** 17, 2 ** 31, 2 ** 63 // 10, "", "e", "w", "head", "down", "lost", "\u0000", "\ud800", "\u00b2",
       "gcs://a b", "package-../x.zip", "package-0.zip\n", "x" * 70000, [], {}, [[]], [{}], {"a": {}}, [None], ["e"], {"e": -1})
WORDS = ("sizes", "group", "min", "max", "launch", "refusal", "offer", "packages", "runtimeEnv", "env_vars", "lifetime", "scaling", "upscalingSpeed", "e", "head", "resized", "check")
RAW = (b"", b"{", b"[]", b"null", b"1", b"\xff", b"NaN", b'{"max": NaN}', b'{"max": 1e999}', b'{"max": ' + b"9" * 400 + b"}", b'{"max": 1, "max": 1e17}')
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z")


def orders(mode, dashboard):
    """A cluster with elastic nodes, with GPUs, and without a job, so that all calls do something."""
    return {"version": 1, "name": "n", "attempt": 1, "launcher": "local", "specHash": "", "lifetime": {"max": 1000, "idle": 1000, "lease": 1000, "idleGpu": 1000},
            "ray": {}, "advertise": "127.0.0.1", "start": {"mode": mode, "dashboard": dashboard, "gcs": "h:1", "placed": True, "early": mode == "external"},
            "groups": [{"name": "head", "count": 1, "gpus": 1}, {"name": "w", "count": 2}, {"name": "e", "count": 0, "max": 4}], "scaling": {"upscalingSpeed": 1.0, "maxAllocations": 3}}


class Here(Spawned):
    """Nodes whose processes are not started."""

    def start(self):
        self.gcs, self.dashboard, self.client_port, self.env = "127.0.0.1:1", "http://127.0.0.1:1", 1, {}

    def start_one(self, member):
        pass

    def add(self, member):
        self.extra[member.name] = member


class Life:
    """A keeper's main thread, as far as requests reach it."""

    def __init__(self, nodes, directory):
        self.failures = []
        told = orders("external" if nodes is External else "spawn", "http://127.0.0.1:1")
        with open(os.path.join(directory, "orders.json"), "w") as f:
            json.dump(told, f)
        with open(os.path.join(directory, "token"), "w") as f:
            f.write("t")
        self.state, self.bell = State(told, directory, self.log), process.Bell()
        its = nodes(told, directory, self.bell, self.log)
        its.start()
        self.keeper = Keeper(told, directory, its, self.bell, self.state, self.log, {})
        self.keeper.limits.begin("max", time.monotonic())
        self.keeper.cluster.admitted()
        self.port = api.serve("127.0.0.1:0", "t", directory, self.state, self.keeper.driver_log, self.keeper.mail)[1]
        self.commit, self.over = os.path.join(directory, "commit"), False
        self.main = threading.Thread(target=self.live, daemon=True)
        self.main.start()

    def log(self, text):
        """The keeper's log: what it reports as a bug is one."""
        if "Traceback" in text:
            self.failures.append(text)

    def live(self):
        """Waits as the life's steps do. An order to end, or a limit that has passed, is what was asked for: the life begins anew."""
        while not self.over:
            try:
                self.keeper.waiting.pause(0.2)
            except (End, AttemptLost) as end:
                self.again(end)
            except BaseException as error:  # this would end the cluster
                self.failures.append("%s: %s" % (type(error).__name__, error))

    def again(self, end):
        if isinstance(end, End):
            json.dumps(end.document())
        mail, limits = self.keeper.mail, self.keeper.limits
        mail.asked, mail.now = None, False
        limits.seconds.update(max=1000.0, idle=1000.0, idleGpu=1000.0, disconnect=0.0, queue=0.0, start=0.0)
        limits.restart("max", time.monotonic())

    def recommit(self):
        """The next commit is a first one."""
        if os.path.exists(self.commit):
            os.unlink(self.commit)
        self.keeper.mail.commit = None

    def ask(self, path, text):
        """The status of an answer, after the main thread has done all of it; the state document that is then served is one that every reader takes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", path, text, {"Authorization": "Bearer t"})
            answer = connection.getresponse()
            status, said = answer.status, answer.read()
            if status in (500, 503):
                self.failures.append("%d: %s" % (status, said.decode()))
            if path == "/v1/end":
                self.keeper.mail.post("renew", {}, 60)  # it is not waited for
            connection.close()
            connection.request("GET", "/v1/state", headers={"Authorization": "Bearer t"})
            document = json.loads(connection.getresponse().read().decode(), parse_constant=self.failures.append)
        finally:
            connection.close()
        self.check(document)
        return status

    def check(self, document):
        for at in list(document["deadlines"].values()) + [document["lastRenewal"]] + [e["at"] for e in document["timeline"]]:
            if at is not None and not TIME.fullmatch(at):
                self.failures.append("the time %s" % at)
        if len(document["timeline"]) > 50:
            del self.state.doc["timeline"][:40]
        if len(self.state.json()) > 1 << 20:
            self.failures.append("the state document has %d bytes" % len(self.state.json()))


def changed(random_, value):
    """A body with something else at one place."""
    if isinstance(value, dict) and value and random_.random() < 0.8:
        name = random_.choice(sorted(value))
        what = random_.random()
        copied = dict(value)
        if what < 0.1:
            del copied[name]
        elif what < 0.25:
            copied[random_.choice(WORDS)] = odd(random_)
        else:
            copied[name] = changed(random_, value[name])
        return copied
    if isinstance(value, list) and value and random_.random() < 0.7:
        at = random_.randrange(len(value))
        return value[:at] + [changed(random_, value[at])] * random_.choice((1, 1, 2)) + value[at + 1:]
    return odd(random_)


def odd(random_):
    what = random_.random()
    if what < 0.1:
        return random_.choice((1, -1)) * random_.random() * 10 ** random_.randrange(-10, 300)
    if what < 0.15:
        deep = {}
        for _ in range(random_.choice((3, 90, 120, 900))):
            deep = random_.choice(({"a": deep}, [deep]))
        return deep
    return copy.deepcopy(random_.choice(ODD))


def bodies(random_):
    """A call and a body, without an end."""
    while True:
        path, body = random_.choice(CALLS)
        for _ in range(random_.choice((0, 1, 1, 1, 2, 3))):
            body = changed(random_, body)
        yield path, random_.choice(RAW) if random_.random() < 0.03 else json.dumps(body).encode()


class Bodies(unittest.TestCase):
    def life(self, nodes):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        life = Life(nodes, directory.name)
        self.addCleanup(life.main.join)
        self.addCleanup(setattr, life, "over", True)
        return life

    def test_what_was_found(self):
        """Each is refused, by 4xx."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "bodies.json")) as f:
            found = json.load(f)
        for nodes in (External, Here):
            life = self.life(nodes)
            for path, text in found:
                life.recommit()
                status = life.ask(path, text.encode())
                self.assertEqual(life.failures, [], (path, text))
                self.assertEqual(status // 100, 4, (path, text))

    def test_what_it_takes(self):
        """Each is done, or refused as the cluster is now."""
        for nodes in (External, Here):
            life = self.life(nodes)
            for path, body in CALLS:
                life.recommit()
                status = life.ask(path, json.dumps(body).encode())
                self.assertIn(status, (404,) if path == "/v1/recorded" else (200, 409), path)
                self.assertEqual(life.failures, [], path)

    def test_random(self):
        for nodes in (External, Here):
            life, made = self.life(nodes), bodies(random.Random(32))
            for _ in range(150):
                path, text = next(made)
                life.recommit()
                life.ask(path, text)
                self.assertEqual(life.failures, [], (path, text))


def fuzz(seconds):
    """Prints what was found, and how much was tried."""
    seed = random.SystemRandom().randrange(1 << 32)
    made, until, count, statuses = bodies(random.Random(seed)), time.monotonic() + seconds, 0, {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        lives = [Life(External, one), Life(Here, two)]
        while time.monotonic() < until:
            path, text = next(made)
            for life in lives:
                life.recommit()
                status = life.ask(path, text)
                count += 1
                statuses[status] = statuses.get(status, 0) + 1
                if life.failures:
                    print(path, text[:2000], "\n".join(life.failures)[-1500:], flush=True)
                    del life.failures[:]
        for life in lives:
            life.over = True
            life.main.join()
    print("seed %d: %d requests, by status %s" % (seed, count, statuses))


if __name__ == "__main__":
    fuzz(float(sys.argv[2])) if sys.argv[1:2] == ["fuzz"] else unittest.main()
