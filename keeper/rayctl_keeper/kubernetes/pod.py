"""The keeper's pod: `keeper.pyz pod FILES RUN_DIR [PACKAGES]`.

Prepares the run directory from the Secrets mounted at FILES and PACKAGES, and runs the keeper there, which ends when the record has its result.
Then the pod exits 0: Kubernetes deletes the Job, and with it the cluster. With an account that may, the keeper deletes it itself."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading

from rayctl_keeper import program
from rayctl_keeper.http import server
from rayctl_keeper.kubernetes import job, sidecars

HOST, PORT = "0.0.0.0", 8476
PREDECESSOR = 30.0  # seconds for the record to send the previous keeper's state: it may still be blocked in a request to the lost pod
TRIES = 20  # of a keeper that is killed; after that it is another pod's turn


def main(arguments):
    """Entry point."""
    code = 1
    try:
        code = live(*arguments)
    finally:
        sidecars.quit_all()  # also after a failure: else the Job would not make the next pod
        if code == 0:
            job.release()
    os._exit(code)


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
        if code >= 0:
            return 0 if code == 0 else 1  # 1: it detached, could not start, or must end before the record has its result: the next pod goes on
        prepare(files, run_dir)  # the end removes the token, and one that was killed after that has yet to hand over its result
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
        """Takes the state, and closes the connection of whoever else has the token."""

        def respond(self, call):
            self.close_connection = True
            if call == self.post and self.path == "/v1/predecessor" and self.authorized():
                super().respond(call)

        def post(self, _path, _query):
            take_state(json.dumps(self.body()).encode(), files, run_dir)
            self.send(200, b"{}")
            asked.set()

    waiting = server.serve(Predecessor, HOST, PORT, token)
    asked.wait(PREDECESSOR)
    waiting.close()


def run(run_dir):
    """The keeper's own life; returns its exit code, negative for a signal."""
    keeper = subprocess.Popen([sys.executable, "-E", "-s"] + program.command("pod-keeper", run_dir), stdin=subprocess.DEVNULL)
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
