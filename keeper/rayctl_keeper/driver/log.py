"""The keeper's copy of the driver's output, taken while it grows: from the file where that is on this host, else over HTTP. Whoever follows the output reads this copy."""

import contextlib
import fcntl
import glob
import http.client
import os
import threading
import time

from rayctl_keeper.host.growth import Growth
from rayctl_keeper.node.files import nodedir
from rayctl_keeper.ray import logread
from rayctl_keeper.ray.dashboard import Refused, Slow, Unreachable, version_tuple

BLOCK = 1 << 20
TRIES = 3  # for the end of a log, over connections that are cut
COPIED = 10.0  # seconds for what a driver that was killed has left in its pipe
LOOK = 1.0  # seconds after which a file is looked at, also if nobody has written to it
BATCH = 0.01  # seconds between two takes, so that a driver that writes line by line costs a shared file system few writes
DAY = 86400
AGAIN, LONGEST = 0.2, 5.0  # seconds before a stream that was cut is opened again, and where that does not help
BEGINNING = 4096  # bytes, by which a log is known again: Ray begins it with a time and the job's id
SAME = 32  # bytes at the end of the copy that a truncated log has at the same place: then the copy goes on there, see _same_from
TRUNCATED = b"\nrayctl: the log was truncated here, and output may be missing\n"  # dashboardclient/logstream/tailer.go has the same


class DriverLog:
    """Appends what the driver wrote to driver.log. The log of an earlier attempt becomes driver-<n>.log."""

    def __init__(self, run_dir, dashboard_of, log):
        self._run_dir, self._path = run_dir, os.path.join(run_dir, "driver.log")
        self._dashboard_of, self._log = dashboard_of, log
        self._out = None
        self._lock = threading.RLock()  # a thread appends while the main thread may begin or finish
        self._grown = threading.Condition()
        self.followers = 0  # who follow the output
        self.changes = 0  # how often there was something new for who follows the output
        self.over = self.left = False  # nothing is appended any more; and another keeper goes on with it
        self._name = self._node = self._source = self._rest = None
        self._current = None  # the attempt's log that driver.log has
        self._got = 0  # bytes of this attempt's log
        self._base = 0  # bytes of this attempt's log before the program's that writes now; all of them, once it is finished
        self._before = None  # what the attempt's log begins with, see goes_before
        self._begun = {}  # by attempt before this one: where in its log the driver's begins
        self._lead = None  # the same, where it must be had again
        self._beginning = b""  # of the log that _source reads
        self.missing = []

    def begin(self, filename, node_id, directories, stream, resume=False):
        """An attempt's driver runs: find its log. `resume`: driver.log has the beginning of it already, from a keeper before this one."""
        with self._lock:
            if self._current == filename:
                return
            self._begin(filename, node_id, directories, resume)
            if stream:
                follow = self._follow_stream if self._source is None else self._follow_file
                threading.Thread(target=follow, args=(filename, node_id, self._source), daemon=True, name="log").start()

    def _begin(self, filename, node_id, directories, resume):
        if _number(self._current) != _number(filename):
            self.put_aside()
        self._drop_rest()
        self._current, self._base = filename, self.begins_at
        self._open()
        have = os.path.getsize(self._path) if self._out else 0
        self._lead = self._before if have < self.begins_at else None  # it was lost with another pod
        self._name, self._node, self._got = filename, node_id, max(0, have - self._base) if resume else 0
        self._source, self._beginning = _first(_of_nodes(filename, directories)), b""
        self._tell()

    def goes_before(self, filename, node_id, size):
        """What job.prepare has printed is the beginning of the attempt's log, so many bytes; the driver's follows."""
        self._before = (filename, node_id, size)
        self._tell()

    def progress(self, attempt, prepare):
        """Of the output of an attempt: the file, how many bytes of it whoever follows the output gets so far, and whether that is all. prepare: what job.prepare
        has printed, alone; nothing where that is not known any more: whoever asks learns where the driver's begins from the status."""
        while True:
            current, path = self._attempt(), self.path(attempt)
            size = os.path.getsize(path) if os.path.exists(path) else 0
            before = self._before  # after the size: what job.prepare prints is whole when this changes
            if self._attempt() == current:
                break  # else the file may have got another name meanwhile, and the next attempt's the former one
        if prepare and current == attempt and before:
            return path, min(size, before[2]), True
        if prepare and (attempt in self._begun or current > attempt):
            return path, min(size, self._begun.get(attempt, 0)), True
        return path, size, self.over or current > attempt

    def _attempt(self):
        """Whose log driver.log is; 0: nobody's."""
        return int(_number(self._current).partition(".")[0] or 0)

    def await_change(self, seen, seconds):
        """Waits until `changes` is more than seen. Returns whether it is."""
        with self._grown:
            return self._grown.wait_for(lambda: self.changes != seen, seconds)

    @contextlib.contextmanager
    def followed(self):
        """While somebody follows the output."""
        with self._grown:
            self.followers += 1
        try:
            yield
        finally:
            with self._grown:
                self.followers -= 1

    def leave(self):
        """Another keeper goes on: those who follow the output ask that one."""
        self.left = True
        self._tell()

    def _tell(self):
        with self._grown:
            self.changes += 1
            self._grown.notify_all()

    @property
    def begins_at(self):
        """Where in the attempt's log the driver's begins."""
        return self._before[2] if self._before else 0

    @property
    def size(self):
        """Bytes of the attempt's log that are on the disk."""
        return os.path.getsize(self._path) if self._current is not None and os.path.exists(self._path) else 0

    def end(self, limit):
        """The last bytes of what the attempt's driver has written, as whole lines; nothing where there is no log of the attempt."""
        if self._current is None:
            return b""
        try:
            with open(self._path, "rb") as f:
                start = max(self.begins_at, os.fstat(f.fileno()).st_size - limit)
                f.seek(start)
                return f.read(limit).partition(b"\n")[2] if start > self.begins_at else f.read(limit)
        except OSError:
            return b""

    def begin_late(self, filename, directories):
        """The driver of an attempt was lost before Ray was seen to run it: what it wrote is on the disk of its node, or among what the node's supervisor has
        saved (node/files/rest.py). Where there is nothing, it is taken not to have run."""
        if self._current == filename:
            return
        saved = os.path.join(glob.escape(self._run_dir), "nodes", "*", glob.escape(filename))
        source = _first(_of_nodes(filename, directories) + glob.glob(saved + ".from-0") + glob.glob(saved + ".whole"))
        if source is not None:
            self.begin(filename, "", (), stream=False)
            self._source, self._beginning = source, b""

    def instead(self, filename, text):
        """The log of an attempt whose driver never ran: why."""
        self.begin(filename, "", (), stream=False)
        with self._lock:
            self._name = None  # there is nothing to take over
        if self._got == 0:
            self._append(text)
            self._base += self._got

    def ended(self, doc):
        """For the logs that a keeper before this one left, with its final state document."""
        self._current, self.over = (doc["job"] or {}).get("logFile"), True

    def path(self, attempt):
        """The file with an attempt's output; 0 is the last attempt."""
        if attempt == 0 or _number(self._current) == "%d.log" % attempt:
            return self._path
        return os.path.join(self._run_dir, "driver-%d.log" % attempt)

    def put_aside(self):
        """The log of the attempt before keeps its bytes under the attempt's number."""
        with self._lock:
            if self._current is None:
                return
            number = _number(self._current)
            self._begun[self._attempt()] = self.begins_at
            self._current = self._before = None
            self._sync()
            self._base, self.missing = 0, []
            try:
                os.rename(self._path, os.path.join(self._run_dir, "driver-" + number))
            except OSError as error:
                self._log("cannot put driver.log aside: %s" % error)

    def _open(self):
        try:
            if self._out is None:
                self._out = open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0)
        except OSError as error:
            self._log("cannot open driver.log: %s" % error)

    def pump(self, limit=64 * BLOCK):
        """Takes over what is new in the file; not more than limit at once, a driver may write faster than we do. Returns whether there may be more."""
        with self._lock:
            if self._source is not None and self._was_truncated():
                self._gap()
                self._source.seek(0)  # all that it has now was written since
            while self._source is not None and limit > 0:
                block = self._source.read(min(BLOCK, limit))
                if not block:
                    return False
                self._append(block)
                limit -= len(block)
            return self._source is not None

    def _follow_file(self, filename, _node, source):
        """Takes over what the driver writes as soon as it has written it."""
        growth = Growth(source.fileno())
        try:
            while True:
                with self._lock:
                    if self._name != filename or self._source is not source:
                        return
                    more = self.pump()
                if not more:
                    growth.wait(LOOK)
                    time.sleep(BATCH)
        except (OSError, ValueError) as error:  # the main thread goes on, less often
            self._log("cannot follow the driver's log: %s" % error)
        finally:
            growth.close()

    def _all_copied(self):
        """Waits until what an ended driver wrote is in its log, which pump.py has locked until then: Ray does not wait where it kills a driver. False: it takes too long."""
        until = time.monotonic() + COPIED
        while True:
            try:
                fcntl.flock(self._source.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                time.sleep(0.01)
            except OSError:
                return True  # a file system without locks has none of pump.py

    def _was_truncated(self):
        """Whether the log is shorter than what was taken over of it, or begins in another way: then it has grown again."""
        now = os.pread(self._source.fileno(), BEGINNING, 0)
        same, self._beginning = now.startswith(self._beginning), now
        return not same or os.fstat(self._source.fileno()).st_size < self._source.tell()

    def _gap(self):
        """Output may be missing at this place; nobody knows how much. What the log has now follows a note, and counts from its beginning."""
        self._miss_at(self._base + self._got)
        self._append(TRUNCATED)
        self._base, self._got = self._base + self._got, 0

    def _miss_at(self, place):
        self._log("the driver's log was truncated at byte %d" % place)
        if [place, place] not in self.missing:
            self.missing.append([place, place])

    def finish(self, reachable, ended=False):
        """Takes the rest of the attempt's log. Over HTTP only if the head may still answer. ended: the driver has ended, so nothing comes after what is on its way."""
        with self._lock:
            name, self._name = self._name, None  # the stream's thread takes nothing more
        if name is None:
            return
        if self._source is not None:
            whole = not ended or self._all_copied()
            # Up to its length now: what the driver left running may write for ever.
            self.pump(os.fstat(self._source.fileno()).st_size)
            self._rest = self._source
            if not whole:
                self._log("the driver has ended, and its output was not in Ray's log after %ds" % COPIED)
                self._miss(self._base + self._got, -1)
        elif reachable:
            error = self._take_end(name)
            if error:
                self._log("cannot read the end of the driver's log: %s" % error)
                self._miss(self._base + self._got, -1)
        else:
            self._miss(self._base + self._got, -1)
        self._base += self._got
        self._source = None

    def _take_end(self, name):
        """Over HTTP, again where the connection was cut; returns the error that stays."""
        for left in range(TRIES - 1, -1, -1):
            try:
                self._recover()
                self._take(name, self._node, self._got)
                return None
            except (Unreachable, Refused, OSError, http.client.HTTPException) as error:
                if left == 0 or isinstance(error, (Refused, Slow)):
                    return error
                time.sleep(0.3)

    def take_rest(self):
        """What a driver wrote after finish() until it ended with its node: one without a grace, or that Ray started meanwhile. Its file is open, also where it is removed."""
        if self._rest is not None:
            self._source, self._rest, self._got = self._rest, None, 0
            self.pump(os.fstat(self._source.fileno()).st_size)
            self._source.close()
            self._base += self._got
            self._source = None

    def _drop_rest(self):
        if self._rest is not None:
            self._rest.close()
            self._rest = None

    def fetch(self, filename, node_id, path, before=None):
        """Puts the log of an attempt that has ended into a file, from the head. before: as for goes_before."""
        other = DriverLog(self._run_dir, self._dashboard_of, self._log)
        other._path, other._before = path, before
        other.begin(filename, node_id, [], stream=False)
        other.finish(reachable=True)
        other.close()

    def document(self):
        """The `log` part of result.json."""
        return {"bytes": self._base, "missing": self.missing}

    def close(self):
        """Puts the copy on the disk. There is nothing more to come."""
        self._drop_rest()
        self._sync()
        self.over = True
        self._tell()

    def _sync(self):
        out, self._out = self._out, None
        if out is not None:
            try:
                os.fsync(out.fileno())
                out.close()
            except OSError as error:
                self._log("cannot close driver.log: %s" % error)

    def _append(self, block):
        start = self._base + self._got
        self._got += len(block)
        written = 0
        if self._out is None:
            self._miss(start, start + len(block))
            return
        try:
            while written < len(block):
                written += self._out.write(block[written:])
        except OSError as error:
            self._log("cannot write driver.log: %s" % error)
            self._miss(start + written, start + len(block))
        self._tell()

    def _miss(self, begin, end):
        if self.missing and self.missing[-1][1] == begin:
            self.missing[-1][1] = end
        else:
            self.missing.append([begin, end])

    def _follow_stream(self, filename, node_id, _source):
        """Takes over what the driver writes on another host. A stream that is cut is opened again: Ray gives the log from its beginning, and what the copy has is left out."""
        pause = AGAIN
        while self._name == filename:
            before = self._base + self._got
            try:
                with self._lock:
                    if self._name == filename:
                        self._recover()
                self._take(filename, node_id, self._got, stream=True)
            except (Unreachable, Refused, OSError, ValueError, http.client.HTTPException) as error:
                self._log("the stream of the driver's log was cut: %s" % error)
            pause = AGAIN if self._base + self._got > before else min(2 * pause, LONGEST)
            time.sleep(pause)

    def _recover(self):
        """What job.prepare has printed, where the run directory lost it with its pod; the driver's follows. If it cannot be had, it is missing."""
        if self._lead is None:
            return
        (name, node, size), self._lead, self._before = self._lead, None, None
        self._base = 0
        try:
            self._take(name, node, 0)
        except (Unreachable, Refused, OSError, http.client.HTTPException) as error:
            self._log("cannot read what job.prepare printed: %s" % error)
            self._miss(self._got, size)
        self._before = (name, node, self._got)
        self._base, self._got = self._got, 0

    def _had(self, begin, size):
        """What the copy has of the log that writes now."""
        try:
            with open(self._path, "rb") as f:
                f.seek(self._base + begin)
                return f.read(size)
        except OSError:
            return b""

    def _take(self, name, node, skip, stream=False, known=False):
        """Appends a log of the head, as it is now, without its first bytes. stream: and as it grows, while it is the one that is wanted. known: those bytes need not be
        what the copy has."""
        connection, read = self._read(name, node, stream)
        with contextlib.closing(connection):
            had = b"" if known else self._had(0, min(skip, BEGINNING))
            while True:
                block = read()
                with self._lock:
                    if stream and self._name != name:
                        return
                    if not block:
                        if skip > 0:
                            raise Refused(500, "Ray gave %d bytes fewer than before" % skip)
                        return
                    begins, had = had[:len(block)], had[len(block):]
                    if not block.startswith(begins):
                        break
                    if skip < len(block):
                        self._append(block[skip:])
                    skip = max(0, skip - len(block))
        same = self._same_from(name, node, self._got)
        with self._lock:
            if stream and self._name != name:
                return
            if self._got - same < SAME:
                self._gap()
            else:
                self._miss_at(self._base + same)
        self._take(name, node, self._got, stream, known=True)

    def _read(self, name, node, stream=False):
        """Opens a log of the head. Returns the connection and a function that returns the next bytes of the log."""
        dashboard = self._dashboard_of()
        version = _version(dashboard)
        live = stream and logread.can_follow(version)
        path = dashboard.log_path("stream", node, name, interval=0.05, timeout=365 * DAY) if live else dashboard.log_path("file", node, name)
        return logread.opened(dashboard, path, DAY if live else 30.0, version, lambda response: response.read1(BLOCK) if live else response.read(BLOCK))

    def _same_from(self, name, node, size):
        """From which byte on a log that was truncated has what the copy has, up to so many bytes. All of it was written since the truncation. But where Ray's stream was open
        it went on at its old place as soon as the log was longer than that (Ray reads a file from there on), and the copy has the rest of the log already."""
        at = same = 0
        connection, read = self._read(name, node)
        with contextlib.closing(connection):
            while at < size:
                block = read()[:size - at]
                if not block:
                    return size  # it is shorter than the copy: no stream has gone on
                same = max(same, at + _differs_up_to(block, self._had(at, len(block))))
                at += len(block)
        return same


def _differs_up_to(one, other):
    """The length of one without the end that both have at the same place, or 0 if they are equal."""
    low, high = 0, len(one)  # one[high:] == other[high:]
    while low < high:
        middle = (low + high) // 2
        if one[middle:] == other[middle:]:
            high = middle
        else:
            low = middle + 1
    return high


def _of_nodes(filename, directories):
    """Paths of a driver's log in nodes' directories: first by the name that pump.py gives it."""
    sessions = [os.path.join(glob.escape(nodedir.rays(directory)), "session_2*") for directory in directories]
    return [path for session in sessions for place in ("", "logs") for path in glob.glob(os.path.join(session, place, glob.escape(filename)))]


def _number(filename):
    """The attempt's, of job-driver-<name>-<n>.log and job-driver-<name>-prepare-<n>.log: "<n>.log"."""
    return (filename or "").rpartition("-")[2]


def _first(paths):
    """The first of the files, open, which stays readable when its directory goes; None where there is none any more."""
    for path in paths:
        try:
            return open(path, "rb")
        except FileNotFoundError:
            pass
    return None


def _version(dashboard):
    """Of Ray, as (2, 60)."""
    return version_tuple(dashboard.version(10.0).get("ray_version", ""))
