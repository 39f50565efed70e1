# What doctor's pod does: `python3 -c PROGRAM [account CLUSTER]`. It looks up a name. With "account" it also asks the API server what the pod's account may of what
# the keeper does with it (kuberay.keeperServiceAccountName), and leaves the answer as the container's termination message.
import http.client
import json
import os
import socket
import ssl
import sys

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"  # which every account may create
TIMEOUT = 10.0  # seconds


def read(name):
    with open(os.path.join(ACCOUNT, name)) as f:
        return f.read().strip()


def refused(cluster):
    """(what the account may not, how much was asked), of what the keeper does: keeper/rayctl_keeper/kubernetes/job.py, nodewatch.py."""
    namespace = read("namespace")
    wanted = [("batch", "jobs", "delete", namespace, cluster)]
    wanted += [("", kind, verb, where, "") for kind, where in (("pods", namespace), ("nodes", "")) for verb in ("list", "watch")]
    out = []
    for group, kind, verb, where, name in wanted:
        attributes = {"group": group, "resource": kind, "verb": verb, "namespace": where, "name": name}
        if not allowed({key: value for key, value in attributes.items() if value}):
            out.append("%s %s" % (verb, kind + ("." + group if group else "")))
    return out, len(wanted)


def allowed(attributes):
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    context = ssl.create_default_context(cafile=os.path.join(ACCOUNT, "ca.crt"))
    connection = http.client.HTTPSConnection(os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]), timeout=TIMEOUT, context=context)
    try:
        connection.request("POST", REVIEWS, json.dumps(review), {"Authorization": "Bearer " + read("token"), "Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 201:
            raise OSError("it answers %d" % answer.status)
        return json.load(answer)["status"]["allowed"]
    finally:
        connection.close()


def report(cluster):
    try:
        not_allowed, asked = refused(cluster)
        return {"refused": not_allowed, "asked": asked}
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        return {"unknown": "%s: %s" % (type(error).__name__, error)}


print(socket.getaddrinfo("kubernetes.default.svc", 443)[0][4][0])
if sys.argv[1:2] == ["account"]:
    with open("/dev/termination-log", "w") as f:
        json.dump(report(sys.argv[2]), f)
