"""Which nodes of Kubernetes are going to be taken away, and which pods cannot start, where the keeper's pod has a service account that may look at nodes and pods
(kuberay.keeperServiceAccountName).
What takes a node away marks the node, before it evicts the node's pods, or without evicting those that are annotated against it: by a taint, mostly."""

import http.client
import threading
import time

from rayctl_keeper.kubernetes.apiserver import ApiServer, Expired, Refused
from rayctl_keeper.kubernetes.unstartable import unstartable

# Taints by their key: the seconds that are left from then on (0: not known), and who has set it. Cordoned (node.kubernetes.io/unschedulable) and
# DeletionCandidateOfClusterAutoscaler announce nothing.
WARNINGS = {
    "karpenter.sh/disrupted": (0, "Karpenter is going to remove it"),
    "karpenter.sh/disruption": (0, "Karpenter is going to remove it"),  # before version 1
    "ToBeDeletedByClusterAutoscaler": (0, "the cluster autoscaler is going to remove it"),
    "aws-node-termination-handler/spot-itn": (120, "AWS reclaims its spot instance"),
    "aws-node-termination-handler/scheduled-maintenance": (0, "AWS is going to maintain its instance"),
    "aws-node-termination-handler/asg-lifecycle-termination": (0, "its auto scaling group is going to end it"),
    "cloud.google.com/impending-node-termination": (25, "Google Cloud is going to end it"),
    "remediator.kubernetes.azure.com/unschedulable": (0, "Azure is going to remove its machine"),
    "remediator.aks.microsoft.com/unschedulable": (0, "Azure is going to remove its machine"),  # the one in AKS' documentation ("Node auto-repair")
}
# Labels by their key and value: GKE's documentation, "Manage disruption to GKE nodes that don't live migrate"; SageMaker HyperPod's, "Automatic node recovery".
LABELS = {
    ("cloud.google.com/active-node-maintenance", "ONGOING"): (0, "Google Cloud is going to maintain its host"),
    ("sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReplacement"): (0, "SageMaker HyperPod is going to replace it"),
    ("sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReboot"): (0, "SageMaker HyperPod is going to restart it"),
}
# Annotations by their key, and how their value begins: kured's documentation, "Annotating nodes"; openshift/machine-config-operator, pkg/daemon/constants.
ANNOTATIONS = {
    "weave.works/kured-reboot-in-progress": ("", 0, "kured is going to restart it"),
    "machineconfiguration.openshift.io/desiredDrain": ("drain-", 0, "OpenShift is going to drain it"),
}
# Conditions that are True: AKS' documentation, "Node Problem Detector (NPD) in AKS nodes"; the least notice is that of Azure's "Scheduled Events for Linux VMs".
# FreezeScheduled is a pause of seconds, and those of node-problem-detector itself (KernelDeadlock, ReadonlyFilesystem) announce no end.
CONDITIONS = {
    "PreemptScheduled": (30, "Azure reclaims its spot machine"),
    "TerminateScheduled": (0, "Azure is going to delete its machine"),
    "RedeployScheduled": (600, "Azure is going to move its machine"),
    "RebootScheduled": (900, "Azure is going to restart its machine"),
}
PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before the API server is asked again


def warning(node):
    """(seconds left or 0, why) of a node that is going to be taken away, else None. Pure."""
    meta, annotations = node.get("metadata") or {}, (node.get("metadata") or {}).get("annotations") or {}
    found = [WARNINGS[taint["key"]] for taint in (node.get("spec") or {}).get("taints") or [] if taint.get("key") in WARNINGS]
    found += [LABELS[label] for label in (meta.get("labels") or {}).items() if label in LABELS]
    found += [(seconds, why) for key, (begin, seconds, why) in ANNOTATIONS.items() if annotations.get(key) and annotations[key].startswith(begin)]
    found += [CONDITIONS[c["type"]] for c in (node.get("status") or {}).get("conditions") or [] if c.get("type") in CONDITIONS and c.get("status") == "True"]
    return min(found, key=lambda known: (known[0] or float("inf"), known[1]), default=None)  # a mark with a time is preferred, then the earliest


class NodeWatch:
    """Watches nodes and the cluster's pods in two threads."""

    def __init__(self, name, bell, server=None):
        self._server = server or ApiServer()
        self._name, self._bell = name, bell
        self._pods, self._nodes = {}, {}  # pod -> (its address, its node, why it cannot start and since when); node -> (name, seconds left or 0, why, since)
        self.refused = ""  # why the nodes cannot be watched
        self._evicted = None  # the head's pod that a kubelet has evicted, and its reason

    def begin(self):
        """Returns whether there is an account to watch with."""
        if not self._server.usable():
            return False
        pods = "/api/v1/namespaces/%s/pods" % self._server.namespace()
        for follow in (lambda: self._follow(pods, self._take_pod, self._pods, labelSelector="ray.io/cluster=" + self._name),
                       lambda: self._follow("/api/v1/nodes", self._take_node, self._nodes)):
            threading.Thread(target=follow, daemon=True).start()
        return True

    def warned(self):
        """{address of a pod: (its node, seconds left or 0, why, since when by the monotonic clock)}."""
        nodes, pods = dict(self._nodes), list(self._pods.values())
        return {address: nodes[node] for address, node, _ in pods if address and node in nodes}

    def unstartable(self, now):
        """Why a pod cannot start, if that has lasted for longer than it may pass; None: all may still start."""
        for _, _, found in list(self._pods.values()):
            if found is not None and now - found[2] >= found[0]:
                return found[1]
        return None

    def evicted(self):
        """(name, the kubelet's reason) of the head's pod if it was evicted since the last call, else None. KubeRay deletes such a pod at once."""
        found, self._evicted = self._evicted, None
        return found

    def _take_pod(self, pod):
        """What is kept of a pod; None: nothing. A pod that cannot start counts from when that was first seen, also if the reason changes."""
        if (pod.get("status") or {}).get("reason") == "Evicted" and (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head":
            self._evicted = (pod["metadata"]["name"], (pod["status"].get("message") or "").strip(" ."))
        address, node, found = (pod.get("status") or {}).get("podIP"), (pod.get("spec") or {}).get("nodeName"), unstartable(pod)
        if found is not None:
            before = self._pods.get(pod["metadata"]["name"])
            found += (before[2][2] if before and before[2] else time.monotonic(),)
        return (address, node, found) if node else None

    def _take_node(self, node):
        found, name = warning(node), node["metadata"]["name"]
        if found is None:
            return None
        before = self._nodes.get(name)
        same = before and before[:3] == (name,) + found  # another warning counts from when it came
        return (name,) + found + (before[3] if same else time.monotonic(),)

    def _follow(self, path, take, kept, **query):
        """Keeps what take returns of each object, by the object's name, until the account may not look."""
        pause = PAUSE
        while True:
            try:
                version = self._list(path, take, kept, query)
                pause = PAUSE
                while True:
                    for change, thing in self._server.watch(path, version, **query):
                        version = thing["metadata"]["resourceVersion"]
                        if change != "BOOKMARK":
                            self._keep(kept, thing["metadata"]["name"], None if change == "DELETED" else take(thing))
            except Refused as error:
                self.refused = str(error)
                self._bell.ring()
                return
            except Expired:
                time.sleep(PAUSE)
            except (OSError, ValueError, KeyError, http.client.HTTPException):  # the API server is away, also in the middle of an answer
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _list(self, path, take, kept, query):
        """All objects as they are now; returns their version."""
        seen, version = set(), ""
        for things, version in self._server.list(path, **query):
            for thing in things:
                seen.add(thing["metadata"]["name"])
                self._keep(kept, thing["metadata"]["name"], take(thing))
        for name in set(kept) - seen:
            kept.pop(name, None)
        return version

    def _keep(self, kept, name, value):
        if value is None:
            kept.pop(name, None)
        elif kept.get(name) != value:
            kept[name] = value
            self._bell.ring()
