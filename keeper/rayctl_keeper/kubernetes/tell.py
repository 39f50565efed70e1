"""How one of Ray's pods sends a report to the keeper. The pod has the keeper's address and token in its environment."""

import json
import os
import urllib.request

from rayctl_keeper.kubernetes.again import until_answered

PAUSES = (0.5, 1.2, 10.0)  # between tries, see again.py: long, because many pods may send to one keeper


def tell(path, body, patience=None):
    """Sends body again and again until the keeper answers: the keeper or the name service may be down for a while. Returns None, or the last error: after `patience`
    seconds (None: no limit), or at once if the keeper refuses the token or does not know the path."""
    request = urllib.request.Request(os.environ["RAYCTL_KEEPER"] + path, data=json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + os.environ["RAYCTL_KEEPER_TOKEN"]})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return until_answered(patience, lambda: opener.open(request, timeout=10).close(), lambda error: getattr(error, "code", 0) in (401, 403, 404), PAUSES)
