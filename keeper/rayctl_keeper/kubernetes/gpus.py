"""Measures how busy a pod's GPUs are, and sends it to the keeper: `keeper.pyz pod-gpus COUNT PERIOD ADDRESS`. Such a pod has no supervisor."""

import http.client
import json
import os
import urllib.request

from rayctl_keeper.node.gpus import gpus

LIMIT = 10.0  # seconds for the keeper's answer


def main(arguments):
    """Entry point; ends with the pod, or when the cluster has another token."""
    url, token = os.environ["RAYCTL_KEEPER"] + "/v1/gpus", os.environ["RAYCTL_KEEPER_TOKEN"]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def send(report):
        request = urllib.request.Request(url, json.dumps(dict(report, node=arguments[2])).encode(), {"Authorization": "Bearer " + token})
        try:
            opener.open(request, timeout=LIMIT).close()
        except (OSError, http.client.HTTPException) as error:  # if the keeper does not answer now, the next report is enough: each one has the sums
            return getattr(error, "code", 0) not in (401, 403)
        return True

    gpus.measure(int(arguments[0]), float(arguments[1]), send)
    return 0
