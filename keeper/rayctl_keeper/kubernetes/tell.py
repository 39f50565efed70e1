"""How one of Ray's pods sends a report to the keeper. It has the address and the token in its environment."""

import http.client
import json
import os
import time
import urllib.request

LONGEST_PAUSE = 10.0


def tell(path, body, patience=None):
    """Sends body until the keeper has answered: it may be away for a while, and the name service too. Returns None, or the error after `patience` seconds (None: there
    is no limit), or where the cluster has another token."""
    request = urllib.request.Request(os.environ["RAYCTL_KEEPER"] + path, data=json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + os.environ["RAYCTL_KEEPER_TOKEN"]})
    opener, begun, pause = urllib.request.build_opener(urllib.request.ProxyHandler({})), time.monotonic(), 0.5
    while True:
        try:
            opener.open(request, timeout=10).close()
            return None
        except (OSError, http.client.HTTPException) as error:
            if patience is not None and time.monotonic() > begun + patience or getattr(error, "code", 0) in (401, 403, 404):
                return error
        time.sleep(pause)
        pause = min(LONGEST_PAUSE, 1.2 * pause)
