"""Reports to the keeper that a node's setup failed: `keeper.pyz report LOG`."""

import json
import os
import sys
import time
import urllib.request

LINES = 10
PATIENCE = 5.0  # for a log that something which setup left in the background still holds open
TOLD_WITHIN = 120.0  # seconds for the keeper to be reached: the name service may be away


def main(arguments):
    """Sends the last lines of LOG once LOG.whole exists, which means that LOG is complete. If the keeper cannot be reached they are the last that the pod prints,
    which KubeRay's events and the pod's status show."""
    until = time.monotonic() + PATIENCE
    while not os.path.exists(arguments[0] + ".whole") and time.monotonic() < until:
        time.sleep(0.01)
    with open(arguments[0], "rb") as f:
        lines = f.read().decode("utf-8", "replace").strip().splitlines()[-LINES:]
    text = "setup failed on %s: %s" % (os.uname().nodename, "; ".join(lines) or "it printed nothing")
    body = json.dumps({"cause": "start-failed", "message": text, "by": os.uname().nodename}).encode()
    request = urllib.request.Request(os.environ["RAYCTL_KEEPER"] + "/v1/end", data=body,
                                     headers={"Authorization": "Bearer " + os.environ["RAYCTL_KEEPER_TOKEN"]})
    until = time.monotonic() + TOLD_WITHIN
    while True:
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()
            return
        except OSError as error:
            if time.monotonic() > until or getattr(error, "code", 0) in (401, 403, 404):
                sys.stderr.write("the keeper could not be notified (%s): %s\n" % (error, text))
                return
            time.sleep(0.5)
