"""Runs inside `ray start` (RAY_START_HOOK), after its slow imports and before it starts anything.

On the head it keeps the dashboard from asking the cloud metadata address: that request is made in the dashboard's event loop
and stops every answer for 5 to 12 seconds on machines that drop such packets, whatever the usage settings are. The dashboard
does not ask if ~/ray_bootstrap_config.yaml exists, so the dashboard, and only the dashboard, gets a HOME with that file.
On a worker it waits for the head's GCS, so that importing Ray (a second of processor time) overlaps with the head's start.
"""

import os
import socket
import time


def prepare(ray_params, head):
    """Called by ray start with its parameters."""
    _restore_environment()
    if head:
        _give_dashboard_its_home(os.path.join(os.environ["RAYCTL_NODE_DIR"], "home"))
    else:
        _wait_for_gcs(os.environ.get("RAYCTL_GCS", ""), float(os.environ.get("RAYCTL_GCS_WAIT", "600")))
    for name in ("RAYCTL_GCS", "RAYCTL_GCS_WAIT"):
        os.environ.pop(name, None)


def _restore_environment():
    os.environ.pop("RAY_START_HOOK", None)
    rest = os.environ.get("PYTHONPATH", "").split(os.pathsep)[1:]  # the first is this file's directory
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)
    users = os.environ.pop("RAYCTL_USER_START_HOOK", "")
    if users:
        os.environ["RAY_START_HOOK"] = users


def _give_dashboard_its_home(home):
    try:
        from ray._private import services
        original = services.start_api_server
    except (ImportError, AttributeError):
        return  # another Ray: it starts as it always did

    def start_api_server(*args, **kwargs):
        before = os.environ.get("HOME")
        os.environ["HOME"] = home
        try:
            return original(*args, **kwargs)
        finally:
            if before is None:
                del os.environ["HOME"]
            else:
                os.environ["HOME"] = before

    services.start_api_server = start_api_server


def _wait_for_gcs(address, limit):
    host, _, port = address.rpartition(":")
    until = time.monotonic() + limit
    while port and time.monotonic() < until:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
            return
        except OSError:
            time.sleep(0.05)
