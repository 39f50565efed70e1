"""The keeper's pod: `keeper.pyz pod FILES RUN_DIR [PACKAGES]`.

Prepares the run directory from the Secrets mounted at FILES and PACKAGES, runs the keeper there, and when that has ended serves its result
until the record has fetched it. Then it exits 0: Kubernetes deletes the Job, and with it the cluster."""

import hmac
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.parse

from rayctl_keeper import program

PORT = 8476
PATIENCE = 120.0  # for the record to fetch the result
PREDECESSOR = 30.0  # seconds for the record to hand over what the keeper before knew: it may still wait for an answer of the lost pod
HOLD = 20.0  # seconds that a question for the record may be held
TRIES = 20  # of a keeper that is killed; after that it is another pod's turn
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

    class Predecessor(Api):
        """Takes the state, and closes the connection of everybody else."""

        def do_POST(self):
            self.close_connection = True
            if self.path == "/v1/predecessor" and self.authorized():
                take_state(self.rfile.read(int(self.headers.get("Content-Length") or 0)), files, run_dir)
                self.answer(200, b"{}")
                asked.set()

        def do_GET(self):
            self.close_connection = True

        do_PUT = do_GET

    Predecessor.token = token
    server = http.server.ThreadingHTTPServer(("0.0.0.0", PORT), Predecessor)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asked.wait(PREDECESSOR)
    server.shutdown()
    server.server_close()


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
    done, signalled = threading.Event(), threading.Event()

    def end(*_):
        if not done.is_set():
            signalled.set()
            done.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    handler = type("BoundHandler", (Handler,), {"run_dir": run_dir, "token": token, "done": done, "signalled": signalled, "answering": []})
    server = http.server.ThreadingHTTPServer(("0.0.0.0", PORT), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done.wait(PATIENCE)
    for answered in list(handler.answering):
        answered.wait(1.0)
    return not signalled.is_set()


class Api(http.server.BaseHTTPRequestHandler):
    """What the servers of this pod have in common."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    token = None

    def authorized(self):
        """Compares the token."""
        for name in ("Authorization", "X-Ray-Authorization"):
            scheme, _, given = self.headers.get(name, "").partition(" ")
            if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token):
                return True
        return False

    def answer(self, status, body):
        """A whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


class Handler(Api):
    """The part of the keeper's API that is left after its end, and the record's receipt."""

    run_dir = done = signalled = None
    answering = []  # an Event for each request that waits for the record

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if not self.authorized():
            self.answer(401, b'{"error": "the keeper\'s token is missing or wrong"}')
        elif url.path == "/v1/state":
            self.answer(200, read(os.path.join(self.run_dir, "result.json")))
        elif url.path == "/v1/log":
            query = dict(urllib.parse.parse_qsl(url.query))
            self.send_attempt(int(query.get("attempt", 0)), int(query.get("offset", 0)))
        elif ATTEMPT.match(url.path):
            self.send_log("driver-%s.log" % ATTEMPT.match(url.path).group(1), 0)
        elif url.path == "/v1/recorded":
            self.await_record()
        else:
            self.answer(404, b'{"error": "the cluster has ended"}')

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.authorized():
            self.answer(401, b'{"error": "the keeper\'s token is missing or wrong"}')
            return
        self.answer(200, read(os.path.join(self.run_dir, "result.json")))
        if self.path == "/v1/recorded":
            self.done.set()

    def await_record(self):
        """Answers when the record has everything: what is left of the cluster may go."""
        answered = threading.Event()
        self.answering.append(answered)
        try:
            if self.done.wait(HOLD) and not self.signalled.is_set():
                self.answer(200, b"{}")
            else:
                self.answer(504, b'{"error": "the record has not fetched the result yet"}')
        finally:
            answered.set()

    def send_attempt(self, attempt, offset):
        """The driver's log of an attempt, 0: the last one, from a byte on, as the keeper's API has it."""
        name = "driver-%d.log" % attempt
        if attempt in (0, json.loads(read(os.path.join(self.run_dir, "result.json")).decode())["attempt"]):
            self.send_log("driver.log", offset)
        elif os.path.exists(os.path.join(self.run_dir, name)):
            self.send_log(name, offset)
        else:
            self.answer(404, b'{"error": "there is no output of attempt %d here"}' % attempt)

    def send_log(self, name, offset):
        """A log of the driver from a byte on."""
        path = os.path.join(self.run_dir, name)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        offset = min(max(0, offset), size)
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size - offset))
        self.end_headers()
        if size > offset:
            with open(path, "rb") as f:
                f.seek(offset)
                shutil.copyfileobj(f, self.wfile, 1 << 20)
