# What doctor's pods do: `python3 -c PROGRAM ORDERS`. The first one, {"listen": SECONDS, "ports": [...]}, accepts connections. The second one, {"reach": ADDRESS, "ports": [...]},
# connects to it, and looks up a name; with "account", a cluster's name, it also asks the API server what the pod's account may of what the keeper does with it
# (kuberay.keeperServiceAccountName). It leaves what it found as the container's termination message.
import http.client
import json
import os
import selectors
import signal
import socket
import ssl
import sys
import threading
import time

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"  # which every account may create
TIMEOUT = 10.0  # seconds
LISTENS = 10.0  # seconds within which the first pod's program listens, and the network knows its address


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


def listener(port):
    """A listening socket for all addresses that this machine has."""
    try:
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=socket.has_dualstack_ipv6())
    except OSError:  # without IPv6
        return socket.create_server(("", port))


def listen(ports, seconds):
    """Accepts connections for so long; doctor deletes the pod earlier, and process 1 has to take SIGTERM itself."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    until, ready = time.monotonic() + seconds, selectors.DefaultSelector()
    for port in ports:
        ready.register(listener(port), selectors.EVENT_READ)
    while time.monotonic() < until:
        for key, _ in ready.select(1.0):
            key.fileobj.accept()[0].close()


def unreached(address, ports):
    """Why each of these ports was not reached, the ports that were aside."""
    found = {}

    def reach(port):
        until = time.monotonic() + LISTENS
        while True:
            try:
                socket.create_connection((address, port), timeout=max(1.0, until - time.monotonic())).close()
                return
            except OSError as error:
                if time.monotonic() > until:
                    found[str(port)] = str(error)
                    return
                time.sleep(0.5)

    threads = [threading.Thread(target=reach, args=(port,)) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


orders = json.loads(sys.argv[1])
if "listen" in orders:
    listen(orders["ports"], orders["listen"])
else:
    found = report(orders["account"]) if "account" in orders else {}
    found["unreached"] = unreached(orders["reach"], orders["ports"])
    with open("/dev/termination-log", "w") as f:
        json.dump(found, f)
    print(socket.getaddrinfo("kubernetes.default.svc", 443)[0][4][0])
