"""How one of Ray's pods sends a report to the keeper. It has the address and the token in its environment."""

import json
import os
import urllib.request

from rayctl_keeper.kubernetes.again import until_answered

PAUSES = (0.5, 1.2, 10.0)  # of many pods that send to one keeper


def tell(path, body, patience=None):
    """Sends body until the keeper has answered: it may be away for a while, and the name service too. Returns None, or the error after `patience` seconds (None: there
    is no limit), or where the cluster has another token."""
    request = urllib.request.Request(os.environ["RAYCTL_KEEPER"] + path, data=json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + os.environ["RAYCTL_KEEPER_TOKEN"]})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return until_answered(patience, lambda: opener.open(request, timeout=10).close(), lambda error: getattr(error, "code", 0) in (401, 403, 404), PAUSES)
