"""Reports to the keeper that a pod has its node, and since when: `keeper.pyz granted head|gang` of a cluster with an early head, `keeper.pyz granted worker GROUP POD` of one
whose workers get their nodes one by one. The keeper has no right to ask Kubernetes."""

import os

from rayctl_keeper.kubernetes.tell import tell

FILES = "/rayctl"  # the mounted Secret


def main(arguments):
    """Entry point."""
    body = {"part": arguments[0], "at": mounted(FILES)}
    if arguments[1:]:
        body["group"], body["pod"] = arguments[1:]
    tell("/v1/granted", body)
    return 0


def mounted(files):
    """When the kubelet made the pod's volumes, in epoch seconds. It does so as soon as the pod has its node, before images are pulled; the link ..data is the last
    that it makes (Kubernetes 1.34, pkg/volume/util/atomic_writer.go), and it stays while the Secret's files that we mount do."""
    return os.lstat(os.path.join(files, "..data")).st_mtime
