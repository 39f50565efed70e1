"""Where the head's GCS and dashboard listen: a file of the run directory, which only this user can write.

Both choose their ports themselves when they bind them: of a port that was chosen before, every user of the host would read in a command line, and could bind it
first. The process of `ray start` on the head finds the ports in Ray's own files, which lie in a directory that nobody else may enter, and writes them here. The
keeper, and the nodes after the head, wait for it. The file exists, and has its length, before a node starts: NFS keeps for a while that a file does not exist (nfs(5),
lookupcache), and a full disk has no room for another one. Each open sees what was written before (close-to-open consistency).
"""

import glob
import json
import os
import re
import sys
import threading
import time

from rayctl_keeper.host import process

VARIABLE = "RAYCTL_HEAD_FILE"
LENGTH = 512  # bytes; shorter than any block, so that it is written whole
PAUSE, BY_NODE = 0.03, 0.001  # seconds between two looks, and for each node that looks
LOG_LINE = re.compile(r"Dashboard head http address: \S*:(\d+)\s")  # ray/dashboard/http_server_head.py


def path(run_dir):
    """The file's place."""
    return os.path.join(run_dir, "addresses")


def write(place, round_, **addresses):
    """Replaces what it has."""
    text = json.dumps(dict(addresses, round=round_)).encode().ljust(LENGTH - 1) + b"\n"
    fd = os.open(place, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(fd, text)
        os.fsync(fd)
    finally:
        os.close(fd)


def read(place, round_):
    """The addresses of that round's head, "gcs" and "dashboard", as far as they are known."""
    try:
        with open(place) as f:
            found = json.loads(f.read())
    except (OSError, ValueError):
        return {}
    return found if found.get("round") == round_ else {}


def settings(run_dir, round_, nodes, host, dashboard_host):
    """The value of VARIABLE, for `ray start` of one of so many nodes: take() has the other end."""
    return json.dumps({"place": path(run_dir), "round": int(round_), "pause": PAUSE + BY_NODE * nodes, "host": host, "dashboardHost": dashboard_host})


def take(environ, arguments):
    """What `ray start` does with the file, None where its ports are fixed."""
    text = environ.pop(VARIABLE, "")
    return HeadFile(json.loads(text), arguments) if text else None


class HeadFile:
    """The file, as `ray start` uses it."""

    def __init__(self, known, arguments):
        self._place, self._round, self._pause = known["place"], known["round"], known["pause"]
        self._host, self._dashboard_host = known["host"], known["dashboardHost"]
        self._temp = temp_dir(arguments)

    def learn(self, limit):
        """Waits for the head's GCS, at most limit seconds; returns its address. Raises SystemExit."""
        until = time.monotonic() + limit
        while True:
            gcs = read(self._place, self._round).get("gcs")
            if gcs:
                return gcs
            if time.monotonic() > until:
                sys.exit("the head did not tell where its GCS listens")
            time.sleep(self._pause)

    def announce(self, client_port):
        """Writes what the head has found, in a thread, and the port of its Ray client server."""
        threading.Thread(target=self._announce, args=(client_port,), daemon=True, name="addresses").start()

    def _announce(self, client_port):
        gcs = self._join(self._host, self._wait(self._gcs_port))
        os.environ["RAY_ADDRESS"] = gcs  # see raystart.environment
        write(self._place, self._round, gcs=gcs)
        dashboard = self._join(self._dashboard_host, self._wait(lambda: dashboard_port(self._temp)))
        write(self._place, self._round, gcs=gcs, dashboard=dashboard, client=client_port)

    def _wait(self, look):
        while True:
            port = look()
            if port:
                return port
            time.sleep(PAUSE)

    def _gcs_port(self):
        """From the file that it writes when it listens, else from the command line of our child: older versions of Ray choose the port themselves."""
        for name in glob.glob(os.path.join(glob.escape(self._temp), "session_latest", "gcs_server_port_*")):
            with open(name) as f:
                text = f.read().strip()
            return int(text) if text.isdigit() else 0
        for _, arguments in children(os.getpid()):
            if os.path.basename(arguments[0]) == b"gcs_server":
                return next((int(a.partition(b"=")[2]) for a in arguments if a.startswith(b"--gcs_server_port=")), 0)
        return 0

    @staticmethod
    def _join(host, port):
        return "[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)


def temp_dir(arguments):
    """--temp-dir of `ray start`; a supervisor's has one, a pod's has none: ""."""
    return next((a.partition("=")[2] for a in arguments if a.startswith("--temp-dir=")), "")


def log_of(temp, name):
    """One of the logs of the session in a --temp-dir; "" before there is one. The directory above is the node's alone."""
    try:
        with open(os.path.join(temp, "session_latest", "logs", name), encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def dashboard_port(temp):
    """Where the dashboard listens, by the line of its log that it writes then; 0 before."""
    found = LOG_LINE.search(log_of(temp, "dashboard.log"))
    return int(found.group(1)) if found else 0


def children(pid):
    """The pids of a process' children, and their command lines."""
    for child, (parent, _) in process.process_table().items():
        if parent == pid:
            yield child, process.arguments_of(child)
