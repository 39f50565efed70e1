"""Reports to the keeper what waits in Ray for resources that no node can ever have, on heads whose autoscaler does not load provider.py: those of clusters without elastic groups, and
KubeRay's. A thread of the head's `ray start`, which has imported Ray anyway, asks the GCS, which has the waiting requests as sums. A look takes 0.1 ms of a processor (Ray 2.60, one node)."""

import json
import os
import threading
import time

from rayctl_keeper.rayhook import leave

# {"keeper": its address or "runDir": the directory that has it, "groups": the resources of a node by elastic or other group, "most": the maximum number of nodes}; groups is
# empty for a cluster without elastic groups.
VARIABLE = "RAYCTL_WAITING"
LOOK = 5.0  # seconds between looks: as often as KubeRay's autoscaler looks
SELDOM = 20.0  # where there is no autoscaler


def settings(run_dir):
    """The variable for the head of a cluster without elastic groups that the keeper starts."""
    return {VARIABLE: json.dumps({"runDir": run_dir, "groups": {}, "most": 0})}


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
        time.sleep(LOOK if settings["groups"] else SELDOM)
        try:
            gcs = gcs or _client(settings)
            found = _waits(gcs, settings)
            if (found or told) and _tell(settings, found) == 200:  # what still waits is told again: another keeper may have followed
                told = found
        except Exception:  # the GCS or the keeper is away, or Ray is still being imported: the next look may find them. Or a Ray without this part of the GCS
            gcs = None


def _client(settings):
    import ray
    address = _state(settings)["head"]["address"] if "runDir" in settings else os.environ["RAY_ADDRESS"]
    if not address:
        raise RuntimeError("the keeper has not heard from this head yet")
    return ray._raylet.GcsClient(address=address)


def _waits(gcs, settings):
    from rayctl_keeper.rayhook import demand
    return demand.unmet(gcs.get_cluster_status(), settings["groups"], settings["most"])


def _tell(settings, found):
    url, token = settings.get("keeper"), None
    if not url:
        url = _state(settings)["keeper"]["url"]
        with open(os.path.join(settings["runDir"], "token")) as f:
            token = f.read().strip()
    return leave.request(url, "POST", "/v1/nodes", json.dumps({"unmet": found}).encode(), token)


def _state(settings):
    with open(os.path.join(settings["runDir"], "state.json")) as f:
        return json.load(f)
