"""The keeper's HTTP API (docs/keeper.md). Its threads read the state document and put requests into the keeper's mailbox."""

import json
import os
import re
import urllib.parse

from rayctl_keeper.host import ports
from rayctl_keeper.http import server
from rayctl_keeper.http.handover import HOLD, RECORDED
from rayctl_keeper.http.mail import Conflict
from rayctl_keeper.http.server import PIECE, Rejected

MAX_WAIT = 60.0
PATIENT = 8.0  # seconds for the main thread, which may be waiting for Ray's answer; clients wait for 10 (callTimeout in launcher/keeper/client.go)
PACKAGE_NAME = re.compile(r"^package-[A-Za-z0-9._+!-]{1,200}\.(zip|whl|jar)$")


def serve(listen, token, run_dir, state, driver_log, mail, handover=None):
    """Starts the API in a daemon thread; returns host and port. handover: of a keeper whose result a record's pod fetches. mail is not used after the end."""
    host, _, port = listen.rpartition(":")
    state.handed_over = handover is not None
    serving = server.serve(Handler, host.strip("[]"), int(port), token.encode(),
                           run_dir=run_dir, state=state, driver_log=driver_log, mail=mail, handover=handover)
    return serving.server_address[:2]


class Handler(server.Handler):
    """One connection of the API."""

    run_dir = state = driver_log = mail = handover = None

    def ended(self):
        """From here on the API only reads."""
        return "exit" in self.state.doc

    def finish(self):
        self.state.left(self)
        super().finish()

    def respond(self, call):
        self.state.answering(1)
        try:
            super().respond(call)
        finally:
            self.state.answering(-1)

    def get(self, path, query):
        if path == "/v1/state":
            if "after" not in query:
                return self.state.json()
            return self.state.wait(int(query["after"]), min(MAX_WAIT, float(query.get("timeout", 20))), self)
        if path == "/v1/log":
            attempt = int(query.get("attempt", 0))
            return self.send_attempt(self.driver_log.path(attempt), int(query.get("offset", 0)), attempt, self.state.doc["attempt"])
        if path == "/v1/recorded" and self.handover:
            return self.await_record()
        if path == "/v1/nodes" and not self.ended():
            return self.nodes(asked=True)
        if path == "/v1/port" and not self.ended():
            return self.port(query)
        return super().get(path, query)

    def nodes(self, asked=False):
        """For Ray's autoscaler."""
        return json.dumps({"nodes": self.mail.elastic.instances(asked), "room": self.mail.elastic.room()}).encode()

    def change_nodes(self, body):
        """What Ray's autoscaler asks for."""
        body = {"launch": launch(body["launch"]) if body.get("launch") else None, "release": names(body.get("release") or []),
                "unmet": names(body.get("unmet") or []), "held": counts(body.get("held"))}
        self.mail.post("nodes", body)
        if body.get("refusal"):
            raise Rejected(409, body["refusal"])
        return self.nodes()

    def scale(self, body):
        """What a user asks for."""
        sizes = body.get("sizes", [body])  # one group's without a list: of a client before there were several
        if not isinstance(sizes, list) or not sizes:
            raise Rejected(400, "scale needs sizes")
        wish = {"sizes": [size(one) for one in sizes]}
        self.mail.post("scale", wish)
        if wish.get("refusal"):
            raise Rejected(409, wish["refusal"])
        return self.state.json()

    def change(self, body):
        """A changed cluster file."""
        wish = {"groups": {}, "scaling": {}}
        wish.update((name, value) for name, value in body.items() if value is not None)
        sizes = wish["groups"].values() if isinstance(wish["groups"], dict) else [None]
        if not isinstance(wish.get("specHash"), str) or not amounts(wish.get("lifetime")) or not amounts(wish["scaling"]) \
                or not all(isinstance(s, list) and len(s) == 3 and all(is_number(n) and isinstance(n, int) for n in s) for s in sizes):
            raise Rejected(400, "change needs specHash, lifetime, groups and scaling")
        if not self.mail.post("change", wish, patience=PATIENT):
            raise Rejected(503, "the keeper has not taken the changed file yet")
        if wish.get("refusal"):
            raise Rejected(409, wish["refusal"])
        return self.state.json()

    def offers(self, body):
        """What a client submits in the keeper's stead."""
        if not all(isinstance(body.get(name, ""), str) for name in ("id", "job", "error")) or not (body.get("job") or "0").isdigit():
            raise Rejected(400, "offers needs id, job (a number), error (text) and take")
        wish = dict(body)
        if not self.mail.post("offers", wish):
            raise Rejected(503, "the keeper is busy")
        return json.dumps({"offer": wish["offer"]}).encode()

    def gpus(self, body):
        """What a pod has measured."""
        texts, numbers = ("node", "begun", "message"), ("count", "seconds", "busySeconds", "idle")
        if not all(isinstance(body.get(n), str) for n in texts) or not all(is_number(body.get(n)) for n in numbers):
            raise Rejected(400, "gpus needs %s" % ", ".join(texts + numbers))
        self.mail.gpus.take(body)
        return b"{}"

    def granted(self, body):
        """Since when a pod has its node."""
        if body.get("part") not in ("head", "gang", "worker") or not is_number(body.get("at")):
            raise Rejected(400, "granted needs part (head, gang or worker) and at")
        if body["part"] == "worker" and not all(isinstance(body.get(name), str) for name in ("group", "pod")):
            raise Rejected(400, "granted needs the group and the pod of a worker")
        self.mail.post("granted", body)
        return b"{}"

    def port(self, query):
        """A port of this host for a server of the cluster, such as Serve's."""
        host, wanted = query.get("host", "127.0.0.1"), int(query.get("port", 0))
        try:
            return json.dumps({"port": ports.choose(host, wanted)}).encode()
        except (OSError, OverflowError) as error:
            raise Rejected(409, "port %d of %s cannot be used: %s" % (wanted, host, getattr(error, "strerror", None) or error))

    def await_record(self):
        """Answers when the record has everything: what is left of the cluster may go."""
        if self.handover.wait(HOLD) != RECORDED:
            raise Rejected(504, "the record has not fetched the result yet")
        self.close_connection = True  # the process ends when nobody is left
        return b"{}"

    def put(self, path, _query):
        if self.ended():
            raise Rejected(404, "the cluster has ended")
        name = urllib.parse.unquote(path[len("/v1/packages/"):])
        if not path.startswith("/v1/packages/") or not PACKAGE_NAME.match(name):
            raise Rejected(404, "packages are PUT to /v1/packages/package-HASH.zip")
        if self.headers.get("Content-Length") is None:
            raise Rejected(411, "Content-Length is missing")
        target = os.path.join(self.run_dir, name)
        temporary = "%s.%d.tmp" % (target, id(self))
        try:
            self._store(temporary, int(self.headers["Content-Length"]))
            os.replace(temporary, target)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
        return b"{}"

    def _store(self, path, left):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
            while left:
                block = self.rfile.read1(min(left, PIECE))  # what has arrived: on a slow line a whole piece may take minutes
                if not block:
                    raise Rejected(400, "the package is shorter than its Content-Length")
                f.write(block)
                left -= len(block)
                self.mail.hear()

    def post(self, path, _query):
        body = self.body()
        if self.ended():
            return self.after_end(path)
        if path == "/v1/commit":
            try:
                self.mail.take_commit(body)
            except Conflict as conflict:
                raise Rejected(409, str(conflict))
            return self.state.json()
        if path == "/v1/nodes":
            return self.change_nodes(body)
        if path == "/v1/scale":
            return self.scale(body)
        if path == "/v1/gpus":
            return self.gpus(body)
        if path == "/v1/offers":
            return self.offers(body)
        if path == "/v1/granted":
            return self.granted(body)
        if path == "/v1/change":
            return self.change(body)
        what = path[len("/v1/"):]
        if path not in ("/v1/renew", "/v1/end", "/v1/extend", "/v1/disconnect", "/v1/leaving"):
            raise Rejected(404, "no such call: POST %s" % path)
        check(what, body)
        if body.get("idle") is not None and self.state.doc["job"] is not None:
            raise Rejected(409, "a run has no idle limit: it ends with its driver")
        objection = self.mail.objection(body) if what == "extend" else None
        if objection:
            raise Rejected(409, objection)
        self.mail.post(what, body, patience=PATIENT)  # the client shows what has changed
        return self.state.json()

    def after_end(self, path):
        """Whatever is asked for: the answer is how it ended. The record confirms that it has the result."""
        self.send(200, self.state.json())
        if path == "/v1/recorded" and self.handover:
            self.handover.conclude(RECORDED)


NUMBERS = {"end": ("grace",), "extend": ("max", "maxBy", "idle"), "disconnect": ("after",), "renew": (), "leaving": ("seconds",)}
WANTED = {"disconnect": "after", "leaving": "seconds"}


def check(what, body):
    """Refuses numbers that are not."""
    for name in NUMBERS[what]:
        value = body.get(name)
        if value is not None and not is_number(value):
            raise Rejected(400, "%s is not a number of seconds" % name)
    if what in WANTED and body.get(WANTED[what]) is None:
        raise Rejected(400, "%s is missing" % WANTED[what])
    for name in ("by", "cause", "message"):
        if not isinstance(body.get(name), (str, type(None))):
            raise Rejected(400, "%s is no text" % name)


def is_number(value):
    """Whether it is one that is not negative."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def amounts(value):
    """Whether it is an object of numbers."""
    return isinstance(value, dict) and all(n is None or is_number(n) for n in value.values())


def launch(wish):
    """Refuses a request for nodes that is none."""
    if not isinstance(wish, dict) or not all(isinstance(wish.get(name), kind) for name, kind in (("type", str), ("count", int), ("request", str))):
        raise Rejected(400, "launch needs type, count and request")
    return {name: wish[name] for name in ("type", "count", "request")}


def size(wish):
    """Refuses a size of a group that is none."""
    if not isinstance(wish, dict) or not isinstance(wish.get("group"), str) or not isinstance(wish.get("min"), int) or not isinstance(wish.get("max"), (int, type(None))):
        raise Rejected(400, "scale needs sizes, each with group, min, and max or none")
    return {name: wish.get(name) for name in ("group", "min", "max")}


def names(wish):
    """Refuses what is no list of words."""
    if not isinstance(wish, list) or not all(isinstance(name, str) for name in wish):
        raise Rejected(400, "release and unmet need lists of text")
    return wish


def counts(wish):
    """Refuses what are no numbers of nodes by type; None: nothing is said of them."""
    if wish is not None and (not isinstance(wish, dict) or not all(isinstance(number, int) for number in wish.values())):
        raise Rejected(400, "held needs a number of nodes for each type")
    return wish
