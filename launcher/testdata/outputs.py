"""A keeper's copy of the output of random programs, and its API: python3 outputs.py KEEPER DIR SEED COUNT.

Program N is attempt N of a run. DIR/prepared-N gets whether it has a job.prepare (1 or 0) when it begins, DIR/program-N what it has printed, and DIR/begin-N where
in the attempt's log its driver's begins.
"""

import os
import random
import sys
import time

keeper, top, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.path.insert(0, keeper)

from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.http import api
from rayctl_keeper.node.files import nodedir

RUNTIME_ENV = b"2026-11-29 12:00:00,000\tINFO job_manager.py:581 -- Runtime env is setting up.\n"  # Ray 2.60, job_manager.py


class State:
    """Of the document only what the API asks for here."""

    def __init__(self):
        self.doc, self.handed_over = {"attempt": count}, False

    def left(self, _connection):
        pass

    def answering(self, _count):
        pass


def printed(rng, job):
    """What a program prints: lines, progress bars, bytes, nothing, and what looks like the beginning of Ray's line."""
    pieces = []
    for _ in range(rng.choice([0, 1, 3, 10, 40])):
        pieces.append(rng.choice([
            lambda: b"line %d\n" % rng.randrange(1000), lambda: b"\r%d %%" % rng.randrange(100), lambda: rng.getrandbits(2400).to_bytes(300, "big"),
            lambda: b"x" * rng.randrange(200000) + b"\n", lambda: b"\n", lambda: b"Running entrypoint for job %s: dr" % job, lambda: RUNTIME_ENV, lambda: "\u00e9".encode()[:1],
        ])())
    return b"".join(pieces)


def with_rays_lines(rng, text, job, entrypoint):
    """The log as Ray writes it: its second line may come late, and split one of the driver's."""
    line, at = b"Running entrypoint for job %s: %s\n" % (job, entrypoint), rng.choice([0, 0, rng.randint(0, len(text)), len(text)])
    return RUNTIME_ENV + text[:at] + line + text[at:]


def write(rng, path, raw):
    """Writes the log in pieces of random sizes."""
    with open(path, "ab", buffering=0) as f:
        while raw:
            size = rng.choice([1, 7, 100, 5000, 300000])
            f.write(raw[:size])
            raw = raw[size:]
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.01)


def save(name, content):
    """A file that is there whole or not at all."""
    path = os.path.join(top, name)
    with open(path + ".new", "wb") as f:
        f.write(content)
    os.rename(path + ".new", path)


def main():
    rng, node = random.Random(seed), os.path.join(top, "node")
    logs = os.path.join(nodedir.rays(node), "session_2026", "logs")
    os.makedirs(logs)
    log = DriverLog(top, None, lambda text: print(text, file=sys.stderr))
    print("http://%s:%d" % api.serve("127.0.0.1:0", "secret", top, State(), log, None), flush=True)
    for n in range(1, count + 1):
        names = [("prepare-", "load")] if rng.random() < 0.3 else []
        save("prepared-%d" % n, b"%d" % len(names))
        text, begin = b"", 0
        for part, entrypoint in names + [("", "drive")]:
            job, name = b"n-%s%d" % (part.encode(), n), "job-driver-n-%s%d.log" % (part, n)
            own = printed(rng, job)
            path = os.path.join(logs, name)
            open(path, "wb").close()  # Ray makes it before the program runs
            log.begin(name, "node", [node], stream=True)
            write(rng, path, with_rays_lines(rng, own, job, entrypoint.encode()))
            log.finish(reachable=True)
            text += own
            if part:
                begin = log.size
                log.goes_before(name, "node", begin)
        save("program-%d" % n, text)
        save("begin-%d" % n, b"%d" % begin)
    log.close()
    sys.stdin.read()  # the client has had enough


main()
