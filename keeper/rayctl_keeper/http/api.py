"""The keeper's HTTP API (docs/keeper.md). Its threads read the state document and put requests into the keeper's mailbox."""

import json
import os
import urllib.parse

from rayctl_keeper.host import ports
from rayctl_keeper.http import bodies, server
from rayctl_keeper.http.handover import HOLD, RECORDED
from rayctl_keeper.http.mail import Conflict
from rayctl_keeper.http.server import PIECE, Rejected

MAX_WAIT = 60.0
SILENT = 20.0  # seconds without output, after which it is looked whether who follows it is still there
PATIENT = 8.0  # seconds for the main thread, which may be waiting for Ray's answer; clients wait for 10 (callTimeout in launcher/keeper/client.go)


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
            return self.state.wait(number(query, "after"), min(MAX_WAIT, number(query, "timeout", 20, float)), self, "record" in query)
        if path == "/v1/log":
            attempt = number(query, "attempt")
            if number(query, "follow") and attempt > 0:
                return self.follow_log(attempt, number(query, "offset"), bool(number(query, "prepare")))
            return self.send_attempt(self.driver_log.path(attempt), number(query, "offset"), attempt, self.state.doc["attempt"])
        if path == "/v1/recorded" and self.handover:
            return self.await_record()
        if path == "/v1/nodes" and not self.ended():
            return self.nodes(asked=True)
        if path == "/v1/port" and not self.ended():
            return self.port(query)
        return super().get(path, query)

    def follow_log(self, attempt, offset, prepare):
        """The output of an attempt from a byte on, as it grows, until all of it is there: in chunks (RFC 9112, 7.1). A connection that ends without the last chunk shows
        that there is more, of this keeper or of the next one."""
        log, last = self.driver_log, None
        self.begin_chunks()
        while True:
            if log.changes == last and not log.await_change(last, SILENT) and self.client_left():
                return None
            last = log.changes
            path, size, whole = log.progress(attempt, prepare)
            offset = self.send_chunks(path, offset, size, lambda: log.path(attempt) == path)
            if self.close_connection or log.left:
                self.close_connection = True
                return None
            if whole and offset >= size:
                return self.end_chunks()

    def nodes(self, asked=False):
        """For Ray's autoscaler."""
        return json.dumps({"nodes": self.mail.elastic.instances(asked), "room": self.mail.elastic.room()}).encode()

    def change_nodes(self, body):
        """What Ray's autoscaler asks for."""
        self.order("nodes", bodies.nodes(body))
        return self.nodes()

    def order(self, what, wish, patience=None):
        """Has the main thread do it. A refusal is left in the wish."""
        done = self.mail.post(what, wish) if patience is None else self.mail.post(what, wish, patience)
        if wish.get("refusal"):
            raise Rejected(409, wish["refusal"])
        return done

    def scale(self, body):
        """What a user asks for."""
        self.order("scale", bodies.scale(body))
        return self.state.json()

    def change(self, body):
        """A changed cluster file."""
        if not self.order("change", bodies.change(body), PATIENT):
            raise Rejected(503, "the keeper has not taken the changed file yet")
        return self.state.json()

    def offers(self, body):
        """What a client submits in the keeper's stead."""
        wish = bodies.offers(body)
        if not self.order("offers", wish):
            raise Rejected(503, "the keeper is busy")
        return json.dumps({"offer": wish["offer"]}).encode()

    def gpus(self, body):
        """What a pod has measured."""
        self.mail.gpus.take(bodies.gpus(body))
        return b"{}"

    def granted(self, body):
        """Since when a pod has its node."""
        self.order("granted", bodies.granted(body))
        return b"{}"

    def port(self, query):
        """A port of this host for a server of the cluster, such as Serve's."""
        host, wanted = query.get("host", "127.0.0.1"), number(query, "port")
        try:
            return json.dumps({"port": ports.choose(host, wanted)}).encode()
        except (OSError, OverflowError, ValueError) as error:
            raise Rejected(409, "port %d of %s cannot be used: %s" % (wanted, host, getattr(error, "strerror", None) or error))

    def await_record(self):
        """Answers when the record has everything: what is left of the cluster may go."""
        if self.handover.wait(HOLD) != RECORDED:
            raise Rejected(504, "the pod of the record has not read the result yet")
        self.close_connection = True  # the process ends when nobody is left
        return b"{}"

    def put(self, path, _query):
        if self.ended():
            raise Rejected(404, "the cluster has ended")
        name = urllib.parse.unquote(path[len("/v1/packages/"):])
        if not path.startswith("/v1/packages/") or not bodies.matches(bodies.PACKAGE_NAME, name):
            raise Rejected(404, "packages are PUT to /v1/packages/package-HASH.zip")
        size = self.length()
        if size is None:
            raise Rejected(411, "Content-Length is missing")
        target = os.path.join(self.run_dir, name)
        temporary = "%s.%d.tmp" % (target, id(self))
        try:
            self._store(temporary, size)
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
                self.mail.take_commit(bodies.commit(body))
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
        if path == "/v1/fetch":
            self.mail.fetch.hear(body.get("done") is True)
            return self.state.json()
        what = path[len("/v1/"):]
        if path not in ("/v1/renew", "/v1/end", "/v1/extend", "/v1/disconnect", "/v1/leaving"):
            raise Rejected(404, "no such call: POST %s" % path)
        bodies.simple(what, body)
        if body.get("idle") is not None and self.state.doc["job"] is not None:
            raise Rejected(409, "a run has no idle limit: it ends with its driver")
        objection = self.mail.objection(body) if what == "extend" else None
        if objection:
            raise Rejected(409, objection)
        self.order(what, body, PATIENT)  # the client shows what has changed
        return self.state.json()

    def after_end(self, path):
        """Whatever is asked for: the answer is how it ended. The record confirms that it has the result."""
        self.send(200, self.state.json())
        if path == "/v1/recorded" and self.handover:
            self.handover.conclude(RECORDED)



def number(query, name, default=0, kind=int):
    """A number of a request's query."""
    try:
        return kind(query.get(name, default))
    except ValueError:
        raise Rejected(400, "%s is not a number" % name)
