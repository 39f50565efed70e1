"""Why the containers of a pod cannot start, where waiting does not help. For clients, kuberay/observe/reason.go and hopeless.go decide the same: both are tested with
kuberay/testdata/containers.json. Nothing here sends a request."""

# Seconds that a reason may last before the start of the cluster fails: a registry may answer again, and a Secret may be made late.
PATIENCE = {
    "InvalidImageName": 0, "ErrImageNeverPull": 0, "ErrImagePull": 60, "ImagePullBackOff": 60,
    "CreateContainerConfigError": 60, "CreateContainerError": 60, "RunContainerError": 60,
    "CrashLoopBackOff": 0,
}
IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
PASSES = (None, "", "ContainerCreating", "PodInitializing")
CRASHES = 3  # restarts of a container after which it counts as one that cannot start
LINES = 5  # last lines of a container's output that are shown


def unstartable(pod):
    """(patience in seconds, sentence with the next step) of a pod that cannot start, else None."""
    status = pod.get("status") or {}
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return None
    containers = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason in PASSES:
            continue
        often = max(c.get("restartCount") or 0 for c in status.get("containerStatuses") or [{}]) >= CRASHES
        if reason not in PATIENCE or reason == "CrashLoopBackOff" and not often:
            return None
        return PATIENCE[reason], sentence(pod["metadata"], container, reason, waiting.get("message") or "")
    return None


def sentence(meta, container, reason, message):
    """Names the container, the cause and the next step."""
    who = "container %s of pod %s" % (container["name"], meta["name"])
    if reason in IMAGE:
        return "the image of %s cannot be pulled: %s: check image and kuberay.imagePullSecrets" % (who, message)
    if reason != "CrashLoopBackOff":
        return "%s cannot start: %s: check secrets and mounts" % (who, message)
    ended = (container.get("lastState") or {}).get("terminated")
    log = "`kubectl logs -n %s %s -c %s --previous`" % (meta.get("namespace", ""), meta["name"], container["name"])
    if ended is None:
        return "%s ends again and again: %s may show why" % (who, log)
    if ended.get("reason") == "OOMKilled":
        return "%s was killed because it needed more memory than it may have: raise memory of the group" % who
    printed = "; ".join((ended.get("message") or "").strip().split("\n")[-LINES:])
    return "%s ends with code %d: %s: %s shows all of it" % (who, ended.get("exitCode") or 0, printed or ended.get("reason") or "", log)
