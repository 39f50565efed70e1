"""The state document, which the keeper's API serves and which is written to state.json and result.json."""

import calendar
import errno
import json
import os
import threading
import time

from rayctl_keeper.state.model import Event, JobState, Phase
from rayctl_keeper.state.reserves import reserves


RESERVE = ".reserve"  # a file that occupies room on the disk: it is made smaller when a document must be written to a full disk
RESERVE_SIZE = 256 << 10  # the client writes the file before it starts the keeper (launcher/keeper/rundir.go), and starts none if that fails
RESERVE_KEPT, RESERVE_STEP = 128 << 10, 16 << 10  # the part that is kept for the last document; the part that is given to another document at a time
LONGEST = 1e10  # seconds, 317 years: more than any duration of a cluster file (292), and so long from now wall() has still a year of four digits
DRAIN = "-drain-"  # follows the cluster's name in the submission ids of run/end/drain.py
FULL = (errno.ENOSPC, errno.EDQUOT)


def wall(seconds=None):
    """The time in RFC 3339, in UTC with milliseconds; by default the present time."""
    now = time.time() if seconds is None else seconds
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (int(now * 1000) % 1000)


def seconds_of(text):
    """Epoch seconds of a time as wall writes it; the fraction may have any number of digits."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float("0." + (fraction or "0"))


def write_atomically(path, data):
    """Replaces a file; the new bytes are on the disk before the file has its name. Mode 0600."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def write_from_reserve(run_dir, path, data):
    """Like write_atomically, but makes the file's directory, too. On a full disk it makes the reserve smaller, so that the state of what was begun is recorded for the
    cleanup."""
    while True:
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            return write_atomically(path, data)
        except OSError as error:
            if error.errno not in FULL or not _shrink(os.path.join(run_dir, RESERVE)):
                raise


def _shrink(reserve):
    try:
        size = os.path.getsize(reserve)
        if size > RESERVE_KEPT:
            os.truncate(reserve, max(RESERVE_KEPT, size - RESERVE_STEP))
        return size > RESERVE_KEPT
    except OSError:
        return False


class State:
    """The state document. Only the main thread changes it; the API's threads read it, and wait here for the next revision."""

    def __init__(self, orders, run_dir, log):
        self._run_dir, self._path = run_dir, os.path.join(run_dir, "state.json")
        lock = threading.RLock()
        self._changed, self._served = threading.Condition(lock), threading.Condition(lock)  # the second is for drain(), so that it does not wake all readers that wait for a change
        self._log = log
        self._disk_full = False
        job = orders.get("job")
        self._output_dir = job.get("outputDir") or "" if job else ""
        self._prepares = bool(job and job.get("prepare"))
        self._reserves = reserves(job) if job else ""
        self.doc = {
            "revision": 0, "name": orders["name"], "launcher": orders.get("launcher", ""),
            "specHash": orders.get("specHash", ""), "changes": 0, "attempt": orders.get("attempt", 1),
            "phase": "", "reason": {"code": "", "message": "", "hint": ""}, "since": wall(),
            "groups": [group(g) for g in orders["groups"]],
            "head": {"address": "", "dashboard": "", "clientPort": 0, "session": "", "nodeId": "", "rayVersion": "", "token": False, "tokenFile": "", "fastStart": False,
                     "prepared": False, "leaving": ""},
            "keeper": {"url": "", "host": "", "pid": os.getpid(), "startTime": 0},
            "nodes": [], "gpus": [], "allocations": orders.get("allocations") or [], "formerAllocations": orders.get("formerAllocations") or [],
            "offers": 0, "job": self.new_job() if job else None, "outputDir": "" if job else orders.get("outputDir") or "", "submissions": [], "endedSubmissions": None,
            "committed": False, "lastRenewal": None, "endOnDisconnect": 0,
            "deadlines": {"max": None, "idle": None, "idleGpu": None, "total": None},
            "timeline": orders.get("timeline") or [], "attempts": orders.get("attempts") or [],
        }
        self._text = b""
        self._encoded = None, 0, b""  # a document, its revision and its bytes: encoded once, because hundreds of readers may ask at once
        self._answering = 0  # requests that the API still has to answer
        self._watching = set()  # connections that got a document and will ask for the next one
        self.handed_over = False  # the record's pod stores the documents, and clients may ask whether it has the last one (GET /v1/recorded)
        self._record_has = -1  # the revision that the record's pod had when it last asked
        try:
            if not os.path.exists(os.path.join(run_dir, RESERVE)):
                write_atomically(os.path.join(run_dir, RESERVE), b"\0" * RESERVE_SIZE)
        except OSError as error:
            log("cannot reserve room for the result: %s" % error)

    def new_job(self, submission_id="", entrypoint="", prepare=""):
        """The job's part before the submission."""
        return {"submissionId": submission_id, "entrypoint": entrypoint, "state": JobState.WAITING, "driverNodeId": "", "driverPid": 0,
                "startTime": None, "endTime": None, "exitCode": None, "signal": None, "message": "", "reserves": self._reserves,
                "logFile": log_file(submission_id) if submission_id else "", "logBegin": 0, "missing": [], "outputDir": self._output_dir, "waitsForFetch": False,
                "prepare": {"submissionId": "", "entrypoint": prepare, "state": JobState.WAITING, "driverNodeId": "", "startTime": None, "endTime": None,
                            "exitCode": None, "signal": None, "message": ""} if self._prepares else None}

    def change(self, event=None, **fields):
        """Sets fields, adds an event (a dict without time) to the timeline, and wakes all waiting readers if anything changed."""
        with self._changed:
            before = self._text
            self.doc.update(fields)
            if event:
                self.doc["timeline"].append(dict({"at": wall(), "attempt": self.doc["attempt"]}, **event))
            # Compared without the revision, so that setting a field to the value that it has is no change.
            text = json.dumps(dict(self.doc, revision=0)).encode()
            if text == before:
                return
            self._text = text
            self.doc["revision"] += 1
            document = self._bytes()
            self._changed.notify_all()
        self._save(document)

    def phase(self, phase, code="", message="", hint=""):
        """Moves to a phase, or changes only the reason."""
        reason = {"code": code, "message": message, "hint": hint}
        if phase == self.doc["phase"]:
            self.change(reason=reason)
            return
        self._log("phase %s %s" % (phase, message))
        self.change({"event": Event.PHASE, "to": phase, "code": code, "message": message},
                    phase=phase, reason=reason, since=wall())

    def note(self, event, to, code="", message=""):
        """Adds to the timeline."""
        self._log("%s %s %s %s" % (event, to, code, message))
        self.change({"event": event, "to": to, "code": code, "message": message})

    def deadlines(self, limits):
        """Puts the times at which limits end the cluster into the document."""
        offset = time.time() - time.monotonic()
        due = {name: limits.due(name) for name in ("max", "idle", "total")}
        due["idleGpu"] = limits.due("idleGpu") if limits.told else None
        self.change(deadlines={name: None if at is None else wall(at + offset) for name, at in due.items()})

    def program(self, kind):
        """The part of the document about a program of the job: the driver (Event.JOB) or job.prepare (Event.PREPARE)."""
        return self.doc["job"] if kind == Event.JOB else self.doc["job"]["prepare"]

    def change_program(self, kind, **fields):
        """Changes that part; a new state is an event."""
        before = self.program(kind)
        now, event = dict(before, **fields), None
        if now["state"] != before["state"]:
            if now["state"] in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED) and before["state"] != JobState.RUNNING and now["startTime"]:
                # The program started and ended between two queries of Ray. The timeline gets the start that Ray reports; the clock of Ray's host may differ from ours.
                at = min(max([now["startTime"]] + [e["at"] for e in self.doc["timeline"][-1:]]), wall())
                self.change({"at": at, "event": kind, "to": JobState.RUNNING, "code": now["submissionId"], "message": ""})
            self._log("%s %s %s" % (kind, now["submissionId"], now["state"]))
            event = {"event": kind, "to": now["state"], "code": now["submissionId"], "message": ""}
        self.change(event, job=now if kind == Event.JOB else dict(self.doc["job"], prepare=now))

    def json(self):
        """The document as bytes."""
        with self._changed:
            return self._bytes()

    def _bytes(self):
        doc, revision, text = self._encoded
        if doc is not self.doc or revision != self.doc["revision"]:
            text = json.dumps(self.doc).encode()
            self._encoded = self.doc, self.doc["revision"], text
        return text

    def record_has(self, revision):
        """Whether the record's pod has the document of that revision or a later one, and can hand it to a keeper that follows this one."""
        with self._changed:
            return self._record_has >= revision

    def await_record(self, seconds, pause):
        """Waits until the record's pod (KubeRay) has the present document, at most so many seconds: a keeper that follows this one gets the document from that pod.
        pause(seconds) sleeps."""
        revision, until = self.doc["revision"], time.monotonic() + seconds
        while self.handed_over and not self.record_has(revision) and time.monotonic() < until:
            pause(0.02)

    def wait(self, after, seconds, connection, of_record=False):
        """The document, as soon as its revision is another than `after`, the client's, or after so many seconds. of_record: the client is the record's pod."""
        with self._changed:
            if of_record:
                self._record_has = after
            self._watching.discard(connection)
            self._changed.wait_for(lambda: self.doc["revision"] != after, seconds)
            if self.handed_over or "exit" not in self.doc:
                self._watching.add(connection)
            self._served.notify_all()
            return self._bytes()

    def left(self, connection):
        """A connection of the API is closed."""
        with self._served:
            self._watching.discard(connection)
            self._served.notify_all()

    def answering(self, count):
        """The API counts the requests that it still has to answer."""
        with self._served:
            self._answering += count
            self._served.notify_all()

    def drain(self, seconds):
        """Waits until all clients that watch have got the last document, also those that are between two requests."""
        with self._served:
            self._served.wait_for(lambda: self._answering == 0 and not self._watching, seconds)

    def final(self, path, exit, log):
        """Makes the last change of the document, which is on the disk before any reader gets it."""
        now, reason = wall(), {"code": exit["cause"], "message": exit["message"], "hint": ""}
        event = {"at": now, "attempt": self.doc["attempt"], "event": Event.PHASE, "to": Phase.GONE, "code": exit["cause"], "message": exit["message"]}
        document = dict(self.doc, revision=self.doc["revision"] + 1, phase=Phase.GONE, since=now, reason=reason, exit=exit, log=log, submissions=[],
                        timeline=self.doc["timeline"] + [event])
        text = json.dumps(document).encode()
        self._save(text)
        try:
            write_atomically(path, text)
        except OSError as error:
            self._log("cannot write result.json: %s" % error)
        with self._changed:
            self.doc = document
            self._changed.notify_all()
            self._served.notify_all()
        self._log("phase Gone")

    def _save(self, document):
        try:
            write_from_reserve(self._run_dir, self._path, document)
            self._disk_full = False
        except OSError as error:
            if not self._disk_full:  # logged once; the API still serves the current document
                self._log("cannot write state.json: %s" % error)
            self._disk_full = True


def log_file(submission_id):
    """The name of a submission's log among Ray's."""
    return "job-driver-%s.log" % submission_id


def group(ordered):
    """The entry of a group of the orders in the document, before it has nodes."""
    limits = {"min": ordered["count"], "max": ordered["max"]} if (ordered.get("max") or 0) > ordered["count"] else {}
    return dict({"name": ordered["name"], "ready": 0, "wanted": ordered["count"], "gpus": ordered.get("gpus") or 0}, **limits)


def ended_attempt(doc, cause, message, code=None, end=None):
    """The entry of `attempts` for the attempt of a state document; end is the time of its end, if Ray reports none."""
    job = doc.get("job") or {}
    begin = {"logBegin": job["logBegin"]} if job.get("logBegin") else {}
    return dict(begin, **{"attempt": doc["attempt"], "submissionId": job.get("submissionId", ""), "start": job.get("startTime"),
            "end": job.get("endTime") or end, "cause": cause, "exitCode": code, "message": message})
