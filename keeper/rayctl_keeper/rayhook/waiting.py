"""Reports to the keeper what waits in Ray for nodes that no group has, where the autoscaler is KubeRay's: it does not load provider.py. A thread of the head's
`ray start`, which has imported Ray anyway, asks the GCS. A look takes 0.1 ms of a processor (Ray 2.60, one node)."""

import json
import os
import threading
import time

from rayctl_keeper.rayhook import leave

VARIABLE = "RAYCTL_WAITING"  # {"keeper": its address, "groups": the resources of a node by group, "most": the maximum number of nodes}; only heads of elastic clusters have it
LOOK = 5.0  # seconds between looks: as often as KubeRay's autoscaler looks


def take():
    """Takes the settings out of the environment, which Ray's processes inherit."""
    return json.loads(os.environ.pop(VARIABLE, "null"))


def begin(settings):
    """Starts the thread, in the process that stays."""
    if settings:
        threading.Thread(target=_report, args=(settings,), daemon=True).start()


def _report(settings):
    gcs, told = None, []
    while True:
        time.sleep(LOOK)
        try:
            gcs = gcs or _client()
            found = _waits(gcs, settings)
            if found != told and leave.request(settings["keeper"], "POST", "/v1/nodes", json.dumps({"unmet": found}).encode()) == 200:
                told = found
        except (ImportError, AttributeError):
            return  # a Ray without this part of the GCS
        except Exception:  # the GCS or the keeper is away; the next look may find them
            gcs = None


def _client():
    import ray
    return ray._raylet.GcsClient(address=os.environ["RAY_ADDRESS"])


def _waits(gcs, settings):
    from rayctl_keeper.rayhook import demand
    return demand.unmet(gcs.get_cluster_status(), settings["groups"], settings["most"])
