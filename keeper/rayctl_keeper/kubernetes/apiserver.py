"""Lists, watches and deletes objects of Kubernetes with the pod's service account, as client-go does it (Kubernetes' documentation, "API Concepts")."""

import http.client
import json
import os
import ssl
import urllib.parse

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # where a pod has its account's token
TIMEOUT = 30.0  # seconds for an answer
WATCH = 240  # seconds of one watch
PAGE = 200  # objects in one answer


class Refused(Exception):
    """The API server refuses what the account may not do (401, 403)."""


class Gone(OSError):
    """There is no such object, or not the one that was meant (404, 409)."""


class Expired(Exception):
    """The list is too old for a watch to go on from it."""


class ApiServer:
    """The API server, by the environment of a pod."""

    def __init__(self, account=ACCOUNT, environ=None):
        environ = os.environ if environ is None else environ
        self._account = account
        self._host, self._port = environ.get("KUBERNETES_SERVICE_HOST", ""), int(environ.get("KUBERNETES_SERVICE_PORT") or 443)

    def usable(self):
        """Whether the pod has an account's token, and knows the API server."""
        return bool(self._host) and os.path.exists(os.path.join(self._account, "token"))

    def namespace(self):
        """The pod's namespace."""
        return self._read("namespace")

    def list(self, path, **query):
        """Yields pages of objects, each with the version that a watch goes on from. Raises Refused, OSError, ValueError."""
        more = None
        while more is None or more:
            with self._get(path, dict(query, limit=PAGE, **({"continue": more} if more else {})), TIMEOUT) as answer:
                page = json.load(answer)
            more = page["metadata"].get("continue", "")
            yield page.get("items") or [], page["metadata"]["resourceVersion"]

    def watch(self, path, version, **query):
        """Yields (kind of change, object) until the API server ends the watch. Raises Expired, Refused, OSError, ValueError."""
        wish = dict(query, watch=1, resourceVersion=version, timeoutSeconds=WATCH, allowWatchBookmarks="true")
        with self._get(path, wish, WATCH + TIMEOUT) as answer:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Expired(event["object"].get("message", ""))
                yield event["type"], event["object"]

    def delete(self, path, options):
        """Deletes an object, by DeleteOptions. One that is deleted, or is another one by now (409: the preconditions), is no error. Raises Refused, OSError."""
        try:
            self._ask("DELETE", path, TIMEOUT, json.dumps(options)).close()
        except Gone:
            pass

    def _get(self, path, query, timeout):
        return self._ask("GET", path + "?" + urllib.parse.urlencode(query), timeout)

    def _ask(self, method, path, timeout, body=None):
        context = ssl.create_default_context(cafile=os.path.join(self._account, "ca.crt"))
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)
        try:
            connection.request(method, path, body, {"Authorization": "Bearer " + self._read("token"), "User-Agent": "rayctl", "Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status not in (200, 202):
                raise error_of(answer)
        except http.client.HTTPException as error:
            connection.close()
            raise OSError("the API server's answer: %s" % error) from error
        except BaseException:
            connection.close()
            raise
        return answer

    def _read(self, name):
        with open(os.path.join(self._account, name)) as f:  # again each time: the kubelet renews the token
            return f.read().strip()


def error_of(answer):
    """The exception for an answer that is none."""
    try:
        message = json.load(answer).get("message") or ""
    except (ValueError, AttributeError, OSError):
        message = ""
    text = "%d %s" % (answer.status, message)
    return {401: Refused, 403: Refused, 404: Gone, 409: Gone, 410: Expired}.get(answer.status, OSError)(text)
