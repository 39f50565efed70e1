"""The keeper's pod: `keeper.pyz pod FILES RUN_DIR [PACKAGES]`.

Prepares the run directory from the Secrets mounted at FILES and PACKAGES, runs the keeper there, and when that has ended serves its result
until the record has fetched it. Then it exits 0: Kubernetes deletes the Job, and with it the cluster."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

from rayctl_keeper import program
from rayctl_keeper.http import server
from rayctl_keeper.http.server import Rejected

HOST, PORT = "0.0.0.0", 8476
PATIENCE = 120.0  # for the record to fetch the result
PREDECESSOR = 30.0  # seconds for the record to send the previous keeper's state: it may still be blocked in a request to the lost pod
HOLD = 20.0  # seconds that a question for the record may be held
TRIES = 20  # of a keeper that is killed; after that it is another pod's turn
RECORDED, SIGNALLED = "recorded", "signalled"  # how the handover of the result may end
ATTEMPT = re.compile(r"^/v1/attempts/(\d{1,9})/log$")


def main(arguments):
    """Entry point."""
    os._exit(live(*arguments))


def live(files, run_dir, *package_directories):
    """The pod's life; returns its exit code."""
    token = read(os.path.join(files, "auth_token")).strip()
    follows = os.path.exists(os.path.join(files, "commit.json")) and not os.path.exists(os.path.join(run_dir, "state.json"))
    prepare(files, run_dir)
    if follows:  # another pod's keeper was there: the commit is in the Secret, its state went with its disk
        await_predecessor(files, run_dir, token)
    for packages in package_directories:
        take_packages(packages, run_dir)
    for _ in range(TRIES):
        code = run(run_dir)
        if os.path.exists(os.path.join(run_dir, "result.json")):
            return 0 if hand_over(run_dir, token) else 1
        if code >= 0:
            return 1  # it detached, or could not start: the next pod goes on
    return 1


def prepare(files, run_dir):
    """Fills the run directory; a pod that follows another finds in the Secret what the client noted that launched the cluster."""
    os.umask(0o077)
    if not os.path.exists(os.path.join(run_dir, "state.json")):
        take_state(read(os.path.join(files, "state.json")), files, run_dir)
    for source, target in (("orders.json", "orders.json"), ("auth_token", "token"), ("commit.json", "commit"),
                           ("submitted", "submitted"), ("deadlines", "deadlines")):
        path = os.path.join(run_dir, target)
        if os.path.exists(os.path.join(files, source)) and not os.path.exists(path):
            copy(os.path.join(files, source), path)


def take_packages(packages, run_dir):
    """Those that the client gave to a keeper whose pod was lost; what is in the run directory is the same."""
    for name in os.listdir(packages):
        path = os.path.join(run_dir, name)
        if name.startswith("package-") and not os.path.exists(path):
            copy(os.path.join(packages, name), path)


def copy(source, path):
    """The whole file, or none."""
    shutil.copyfile(source, path + ".new")
    os.replace(path + ".new", path)


def take_state(text, files, run_dir):
    """Writes the state document of the keeper before, with the deadlines that were noted since, if it is one and no older than what is there."""
    path = os.path.join(run_dir, "state.json")
    try:
        state = json.loads(text.decode())
        if len(state.get("timeline") or []) < len(json.loads(read(path).decode() or "{}").get("timeline") or []):
            return
        state["deadlines"] = dict(state.get("deadlines") or {}, **json.loads(read(os.path.join(files, "deadlines")).decode() or "{}"))
    except (ValueError, TypeError, AttributeError):
        return
    with open(path + ".new", "w") as f:
        json.dump(state, f)
    os.replace(path + ".new", path)


def await_predecessor(files, run_dir, token):
    """Waits until the record has handed over the last state that it saw of the keeper before. Other requests get no answer: clients repeat them, as they
    do while a pod does not listen yet."""
    asked = threading.Event()

    class Predecessor(server.Handler):
        """Takes the state, and closes the connection of everybody else."""

        def respond(self, call):
            self.close_connection = True
            if call == self.post and self.path == "/v1/predecessor" and self.authorized():
                super().respond(call)

        def post(self, _path, _query):
            take_state(json.dumps(self.body()).encode(), files, run_dir)
            self.send(200, b"{}")
            asked.set()

    waiting = server.serve(Predecessor, HOST, PORT, token, look_every=0.5)
    asked.wait(PREDECESSOR)
    waiting.shutdown()
    waiting.server_close()


def run(run_dir):
    """The keeper's own life; returns its exit code, negative for a signal."""
    keeper = subprocess.Popen([sys.executable, "-E", "-s"] + program.command("keeper", run_dir), stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: keeper.send_signal(got))
    code = keeper.wait()
    sys.stderr.write(read(os.path.join(run_dir, "keeper.log")).decode("utf-8", "replace"))
    sys.stderr.flush()
    return code


def read(path):
    """A file's content; nothing if it is not there."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def hand_over(run_dir, token):
    """Serves the result until the record has it. False: this pod is to end before that, and another one must go on: with the end of a pod that
    succeeds Kubernetes deletes the cluster."""
    handover = Handover()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: handover.conclude(SIGNALLED))
    server.serve(Handler, HOST, PORT, token, run_dir=run_dir, handover=handover)
    handover.wait(PATIENCE)
    handover.drain(1.0)
    return handover.outcome != SIGNALLED


class Handover:
    """Whether the record has the result. Shared by the main thread, its signal handler (hence Condition's own lock, which is reentrant) and the
    threads of the requests."""

    def __init__(self):
        self._changed = threading.Condition()
        self._answering = 0  # requests that wait for the outcome
        self.outcome = None  # RECORDED or SIGNALLED, whichever came first

    def conclude(self, outcome):
        """The first outcome counts."""
        with self._changed:
            self.outcome = self.outcome or outcome
            self._changed.notify_all()

    def wait(self, seconds):
        """Waits for the outcome, and returns it; None if it did not come."""
        with self._changed:
            self._changed.wait_for(lambda: self.outcome, seconds)
            return self.outcome

    @contextlib.contextmanager
    def answering(self):
        """Around the answer to a request that waits for the outcome."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def drain(self, seconds):
        """Waits until those requests are answered: the process may end."""
        with self._changed:
            self._changed.wait_for(lambda: self._answering == 0, seconds)

    def _count(self, change):
        with self._changed:
            self._answering += change
            self._changed.notify_all()


class Handler(server.Handler):
    """The part of the keeper's API that is left after its end, and the record's receipt."""

    run_dir = handover = None

    def get(self, path, query):
        if path == "/v1/state":
            return self.result()
        if path == "/v1/log":
            return self.send_log_of(int(query.get("attempt", 0)), int(query.get("offset", 0)))
        if ATTEMPT.match(path):
            return self.send_earlier(int(ATTEMPT.match(path).group(1)))
        if path == "/v1/recorded":
            return self.await_record()
        raise Rejected(404, "the cluster has ended")

    def put(self, _path, _query):
        raise Rejected(404, "the cluster has ended")

    def post(self, path, _query):
        self.body()
        self.send(200, self.result())
        if path == "/v1/recorded":
            self.handover.conclude(RECORDED)

    def result(self):
        """The final state document."""
        return read(os.path.join(self.run_dir, "result.json"))

    def send_log_of(self, attempt, offset):
        """The driver's log of an attempt, as the keeper's API has it."""
        last = json.loads(self.result().decode())["attempt"]
        name = "driver.log" if attempt in (0, last) else "driver-%d.log" % attempt
        self.send_attempt(os.path.join(self.run_dir, name), offset, attempt, last)

    def send_earlier(self, attempt):
        """For the record: the log of an attempt before the last. One whose driver did not run is empty."""
        try:
            self.send_log(os.path.join(self.run_dir, "driver-%d.log" % attempt), 0)
        except FileNotFoundError:
            self.send(200, b"")

    def await_record(self):
        """Answers when the record has everything: what is left of the cluster may go."""
        with self.handover.answering():
            if self.handover.wait(HOLD) == RECORDED:
                self.send(200, b"{}")
            else:
                self.send(504, b'{"error": "the record has not fetched the result yet"}')
