"""The keeper's pod: `keeper.pyz pod FILES RUN_DIR [PACKAGES]`.

Prepares the run directory from the Secrets mounted at FILES and PACKAGES, and runs the keeper there. The keeper ends when the record's pod has its result.
Then this pod exits 0, Kubernetes deletes the Job, and with it the cluster. If the keeper's service account may delete the Job, the keeper does so itself."""

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
PREDECESSOR = 30.0  # seconds to wait until the record's pod sends the previous keeper's state: it may still wait for an answer of the lost pod
TRIES = 20  # starts of the keeper in this pod, if it is killed again and again; after that the Job makes another pod


def main(arguments):
    """Entry point."""
    code = 1
    try:
        code = live(*arguments)
    finally:
        sidecars.quit_all()  # also after a failure: the Job makes the next pod only when all containers of this one have ended
        if code == 0:
            job.release()
    os._exit(code)


def live(files, run_dir, *package_directories):
    """Prepares the run directory and runs keepers until one ends without being killed; returns the pod's exit code."""
    token = read(os.path.join(files, "auth_token")).strip()
    follows = os.path.exists(os.path.join(files, "commit.json")) and not os.path.exists(os.path.join(run_dir, "state.json"))
    prepare(files, run_dir)
    if follows:  # an earlier pod had a keeper: the commit is in the Secret, but the keeper's state was lost with that pod's disk
        await_predecessor(files, run_dir, token)
    for packages in package_directories:
        take_packages(packages, run_dir)
    for _ in range(TRIES):
        code = run(run_dir)
        if code >= 0:
            return 0 if code == 0 else 1  # 1: the keeper detached, could not start, or had to end before the record had its result; the next pod continues
        prepare(files, run_dir)  # a keeper that ends removes the token; if it is killed after that, the next one needs the token to hand over the result
    return 1


def prepare(files, run_dir):
    """Fills the run directory. For a pod that follows another one, the Secret also has what a client noted there: commit, submission, deadlines."""
    os.umask(0o077)
    if not os.path.exists(os.path.join(run_dir, "state.json")):
        take_state(read(os.path.join(files, "state.json")), files, run_dir)
    for source, target in (("orders.json", "orders.json"), ("auth_token", "token"), ("commit.json", "commit"),
                           ("submitted", "submitted"), ("deadlines", "deadlines")):
        path = os.path.join(run_dir, target)
        if os.path.exists(os.path.join(files, source)) and not os.path.exists(path):
            copy(os.path.join(files, source), path)


def take_packages(packages, run_dir):
    """Copies the packages that the client sent to an earlier keeper whose pod was lost. A package that the run directory already has is the same one."""
    for name in os.listdir(packages):
        path = os.path.join(run_dir, name)
        if name.startswith("package-") and not os.path.exists(path):
            copy(os.path.join(packages, name), path)


def copy(source, path):
    """Copies the file; path then has all of it, or does not exist."""
    shutil.copyfile(source, path + ".new")
    os.replace(path + ".new", path)


def take_state(text, files, run_dir):
    """Writes the previous keeper's state document, with the deadlines noted in the Secret. Does nothing if text is no state document, or if it is older than the one
    in the run directory."""
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
    """Waits until the record's pod has sent the last state that it saw of the previous keeper. Other requests get no answer: clients repeat them, as they do while
    a pod does not listen yet."""
    asked = threading.Event()

    class Predecessor(server.Handler):
        """Accepts the state, and closes the connection of all other requests."""

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
    """Runs the keeper to its end; returns its exit code, negative for a signal."""
    keeper = subprocess.Popen([sys.executable, "-E", "-s"] + program.command("pod-keeper", run_dir), stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: keeper.send_signal(got))
    code = keeper.wait()
    sys.stderr.write(read(os.path.join(run_dir, "keeper.log")).decode("utf-8", "replace"))
    sys.stderr.flush()
    return code


def read(path):
    """A file's content; b"" if there is no such file."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""
