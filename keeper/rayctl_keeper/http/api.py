"""The keeper's HTTP API (docs/keeper.md). Its threads read the state document and put requests into the keeper's mailbox."""

import json
import os
import threading
import time
import urllib.parse

from rayctl_keeper.host import ports
from rayctl_keeper.http import bodies, server
from rayctl_keeper.http.handover import HOLD, RECORDED
from rayctl_keeper.http.mail import Conflict
from rayctl_keeper.http.server import PIECE, Rejected
from rayctl_keeper.node.files import jobpack

MAX_WAIT = 60.0
SILENT = 20.0  # seconds without output, after which the keeper checks whether the client that follows the log is still connected
FEW, SHARE = 10, 0.0005  # with more than FEW followers, each waits SHARE seconds times their number between two pieces: with 500, a quarter of a second
PATIENT = 8.0  # seconds to wait for the main thread, which may be waiting for Ray's answer; clients wait for 10 (callTimeout in launcher/keeper/client.go)
PACKING = threading.Lock()


def serve(listen, token, run_dir, state, driver_log, mail, handover=None):
    """Starts the API in a daemon thread; returns host and port. handover: the Handover of a keeper whose result a record's pod fetches. mail is not used after the
    end."""
    host, _, port = listen.rpartition(":")
    state.handed_over = handover is not None
    serving = server.serve(Handler, host.strip("[]"), int(port), token.encode(),
                           run_dir=run_dir, state=state, driver_log=driver_log, mail=mail, handover=handover)
    return serving.server_address[:2]


class Handler(server.Handler):
    """One connection of the API."""

    run_dir = state = driver_log = mail = handover = None

    def ended(self):
        """Whether the cluster has ended: then the API changes nothing any more."""
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
        if path == "/v1/jobs" and self.ended():
            return self.jobs()
        if path == "/v1/nodes" and not self.ended():
            return self.nodes(asked=True)
        if path == "/v1/port" and not self.ended():
            return self.port(query)
        return super().get(path, query)

    def follow_log(self, attempt, offset, prepare):
        """Sends the output of an attempt, from a byte on, as it grows, until the attempt's output is complete: in chunks (RFC 9112, 7.1). If the connection ends without
        the last chunk, there is more output, at this keeper or at the next one."""
        log = self.driver_log
        self.begin_chunks()
        with log.followed():
            self.send_growing(log, attempt, offset, prepare)

    def send_growing(self, log, attempt, offset, prepare):
        """Sends the chunks of follow_log."""
        last = None
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
            if log.followers > FEW:
                time.sleep(SHARE * log.followers)

    def nodes(self, asked=False):
        """The answer for Ray's autoscaler: the nodes, and how many more there may be."""
        return json.dumps({"nodes": self.mail.elastic.instances(asked), "room": self.mail.elastic.room()}).encode()

    def change_nodes(self, body):
        """Passes on the nodes that Ray's autoscaler requests or gives back."""
        self.order("nodes", bodies.nodes(body))
        return self.nodes()

    def order(self, what, request, patience=None):
        """Passes a request to the main thread, and waits. The main thread leaves the reason of a refusal in the request."""
        done = self.mail.post(what, request) if patience is None else self.mail.post(what, request, patience)
        if request.get("refusal"):
            raise Rejected(409, request["refusal"])
        return done

    def scale(self, body):
        """Passes on the number of nodes that a user requests."""
        self.order("scale", bodies.scale(body))
        return self.state.json()

    def change(self, body):
        """Passes on a changed cluster file."""
        if not self.order("change", bodies.change(body), PATIENT):
            raise Rejected(503, "the keeper has not taken the changed file yet")
        return self.state.json()

    def offers(self, body):
        """Passes on what a client reports of offers, and answers with the next offer: a job that the client is to submit for the keeper."""
        request = bodies.offers(body)
        if not self.order("offers", request):
            raise Rejected(503, "the keeper is busy")
        return json.dumps({"offer": request["offer"]}).encode()

    def gpus(self, body):
        """Takes a pod's measurements of its GPUs."""
        self.mail.gpus.take(bodies.gpus(body))
        return b"{}"

    def granted(self, body):
        """Passes on the time since which a pod has its node."""
        self.order("granted", bodies.granted(body))
        return b"{}"

    def port(self, query):
        """Chooses a free port of this host for a server of the cluster, such as Serve's, or checks the port that was asked for."""
        host, wanted = query.get("host", "127.0.0.1"), number(query, "port")
        try:
            return json.dumps({"port": ports.choose(host, wanted)}).encode()
        except (OSError, OverflowError, ValueError) as error:
            raise Rejected(409, "port %d of %s cannot be used: %s" % (wanted, host, getattr(error, "strerror", None) or error))

    def jobs(self):
        """All that is kept of submitted jobs."""
        if not os.path.exists(os.path.join(self.run_dir, jobpack.RECORDS)):
            raise Rejected(404, "no job was submitted")
        path = os.path.join(self.run_dir, jobpack.FILE)
        with PACKING:
            if not os.path.exists(path):
                jobpack.write(self.run_dir)
        self.send_log(path, 0)

    def await_record(self):
        """Answers when the record has the result and the logs: then the cluster's objects may be deleted."""
        if self.handover.wait(HOLD) != RECORDED:
            raise Rejected(504, "the pod of the record has not read the result yet")
        self.close_connection = True  # the keeper ends when no connection is left
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
                block = self.rfile.read1(min(left, PIECE))  # only the bytes that have arrived: on a slow connection a whole piece may take minutes
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
        if path not in ("/v1/renew", "/v1/end", "/v1/extend", "/v1/disconnect", "/v1/leaving", "/v1/ended"):
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
        """Answers every request after the end with the last state document. By /v1/recorded, the record's pod confirms that it has the result."""
        self.send(200, self.state.json())
        if path == "/v1/recorded" and self.handover:
            self.handover.conclude(RECORDED)



def number(query, name, default=0, kind=int):
    """A number of a request's query."""
    try:
        return kind(query.get(name, default))
    except ValueError:
        raise Rejected(400, "%s is not a number" % name)
