"""The keeper's Job, which owns the cluster. Kubernetes deletes the Job when its pod has ended; but a container that admission added to the pod may run for ever. A keeper
with a service account (kuberay.keeperServiceAccountName) therefore deletes the Job when the record has the result. Without an account, the pod has no permission for
that."""

import os
import sys
import urllib.parse

from rayctl_keeper.kubernetes.again import until_answered
from rayctl_keeper.kubernetes.apiserver import ApiServer, Refused

NAME, UID = "RAYCTL_KEEPER_JOB", "RAYCTL_KEEPER_JOB_UID"  # variables of the pod
PATIENCE, PAUSE = 60.0, 1.0  # seconds to wait for an API server that does not answer, and between two tries


def release(server=None, environ=None, patience=PATIENCE):
    """Deletes the Job with all that it owns, if the pod has a service account."""
    server, environ = server or ApiServer(), os.environ if environ is None else environ
    name, uid = environ.get(NAME), environ.get(UID)
    if not name or not uid or not server.usable():
        return
    path = "/apis/batch/v1/namespaces/%s/jobs/%s" % (urllib.parse.quote(server.namespace()), urllib.parse.quote(name))
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
    sentence = "the keeper cannot delete its Job, which ends with its pod: %s\n"
    try:
        error = until_answered(patience, lambda: server.delete(path, options), pauses=(PAUSE, 1, PAUSE))
    except Refused as refused:
        error, sentence = refused, "the keeper may not delete its Job, which ends with its pod: %s\n"
    if error is not None:  # then Kubernetes deletes the Job when this pod has ended
        sys.stderr.write(sentence % error)
