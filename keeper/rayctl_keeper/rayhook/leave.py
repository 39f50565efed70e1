"""SIGTERM in a pod of a run on KubeRay: an eviction, a preemption, a deletion of the pod, or the end of the cluster.

`ray start --block` drains its own node on SIGTERM, for RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S (Ray 2.60, ray/_private/node.py): tasks and actors go on, Ray Train's
workers see a preemption. Where the cluster ends nobody is left to drain for, and the node ends at once. The head also asks the keeper to stop the driver with its
grace; the keeper then drains all nodes, and lets the head go when it has the driver's output."""

import http.client
import json
import os
import signal
import socket
import threading
import time
import urllib.parse

from rayctl_keeper.host import proof

# What the keeper puts into Ray's store when the cluster ends: all that it needs is the dashboard.
ENDED = "/api/packages/gcs/_ray_pkg_rayctl_ended.zip"
CONNECT, ANSWER = 1.0, 3.0  # seconds for a dashboard to be there, and to answer
TELL = 5.0  # seconds for the keeper to be reached: another pod may have to follow the one before
GOES = 128 + signal.SIGTERM
_settings = {}
_signals = {"seen": False, "got": False}  # whether this process sees its SIGTERM, and has got it


def take():
    """Takes what pods are given for this out of the environment. Without a dashboard SIGTERM is Ray's; the keeper is known to each head."""
    for name in ("RAYCTL_WARN_DASHBOARD", "RAYCTL_WARN_KEEPER"):
        if os.environ.get(name):
            _settings[name] = os.environ.pop(name)
    if active() and os.getpid() == 1:  # the kernel lets the first process of a pod ignore a signal that it does not handle
        signal.signal(signal.SIGTERM, lambda *_: os._exit(GOES))


def active():
    """Whether SIGTERM is to be looked at."""
    return "RAYCTL_WARN_DASHBOARD" in _settings


def tells():
    """Whether the keeper is told how Ray of this pod has ended."""
    return "RAYCTL_WARN_KEEPER" in _settings


def cluster_stays():
    """Whether the cluster continues without this node: its dashboard answers, and does not show that the cluster ends."""
    stays = [True]  # also if no answer comes in time
    asking = threading.Thread(target=lambda: stays.__setitem__(0, _dashboard_says()), daemon=True)
    asking.start()
    asking.join(CONNECT + ANSWER)
    return stays[0]


def _dashboard_says():
    try:
        return request(_settings["RAYCTL_WARN_DASHBOARD"], "GET", ENDED) == 404
    except socket.timeout:
        return True  # it is there, and slow
    except (OSError, http.client.HTTPException):
        return False


def keeper_told(seconds):
    """Reports to the keeper that the head is going to end in so many seconds. Returns whether it knows."""
    until = time.monotonic() + min(TELL, seconds / 3)
    body = json.dumps({"seconds": seconds, "by": os.uname().nodename}).encode()
    while tells():
        try:
            return request(_settings["RAYCTL_WARN_KEEPER"], "POST", "/v1/leaving", body) == 200
        except (OSError, http.client.HTTPException):
            if time.monotonic() > until:
                break
        time.sleep(0.2)
    return False


def stays():
    """Whether `ray start` is known to have got no SIGTERM itself, on which it ends Ray's processes by SIGTERM."""
    return _signals["seen"] and not _signals["got"]


def head_ended(sentence):
    """Tells the keeper why Ray of the head's pod has ended. Without an answer the keeper sees only that the head is gone."""
    if tells():
        body = json.dumps({"message": sentence, "by": os.uname().nodename}).encode()
        try:
            request(_settings["RAYCTL_WARN_KEEPER"], "POST", "/v1/ended", body)
        except (OSError, http.client.HTTPException):
            pass


def request(url, method, path, body=None, token=None):
    """The status of the answer to a request of this cluster's token, by default the pod's."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=CONNECT)
    try:
        try:
            connection.connect()
        except socket.timeout as error:
            raise OSError("nothing listens there") from error
        proof.require(connection.sock, CONNECT)
        connection.sock.settimeout(ANSWER)
        headers = {"Authorization": "Bearer " + (token or os.environ.get("RAY_AUTH_TOKEN", "")), "User-Agent": "rayctl"}
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def change(node_class, constants):
    """Has `ray start` note its SIGTERM, and look first where that is wanted. Ray without a drain of its own ends at once, as it always did."""
    try:
        drain, raylet = node_class._drain_node_before_shutdown, constants.PROCESS_TYPE_RAYLET
        seconds = float(constants.RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S)
    except AttributeError:
        return

    def look_first(node):
        begin, _signals["got"] = time.monotonic(), True
        if not active():
            drain(node)
            return
        if not cluster_stays():
            if os.getpid() == 1:
                os._exit(GOES)  # and with it all of the pod
            return
        if not keeper_told(seconds):
            drain(node)
            return
        while time.monotonic() < begin + seconds and not any(kind == raylet for kind, _ in node.dead_processes()):
            time.sleep(0.1)

    node_class._drain_node_before_shutdown, _signals["seen"] = look_first, True
