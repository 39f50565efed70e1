"""The output of submitted jobs, where the keeper and the nodes share no files (KubeRay): taken from Ray's state API into jobs/<submission id>.log of the run directory soon after each
job's end, so that little is left to do at the cluster's, and a head that is lost takes with it only the output of what ran."""

import collections
import contextlib
import os
import threading
import time

from rayctl_keeper.driver.rayjob import TERMINAL
from rayctl_keeper.node.files.joblogs import DIRECTORY, GAP, MOST, SUFFIX, UNREAD, created, ends
from rayctl_keeper.ray import logread
from rayctl_keeper.ray.dashboard import version_tuple
from rayctl_keeper.state.document import log_file

BLOCK = 1 << 20
ANSWERS = 5.0  # seconds for the next bytes
READS = 60.0  # seconds for one output; of a longer one the end is asked for alone
LINES = 1000
TRIES, AGAIN = 3, 0.3  # seconds before the next one


class Outputs:
    """Its thread takes one output after the other, the newest first."""

    def __init__(self, run_dir, bounds, dashboard_of, log):
        """bounds: bytes of one output, and of all."""
        self._directory, self._dashboard_of, self._log = os.path.join(run_dir, DIRECTORY), dashboard_of, log
        self._one, self._all = bounds
        self._version = None  # of Ray, which all heads of a cluster have
        self._changed = threading.Condition()
        self._wanted, self._taking, self._thread = [], None, None
        self._until = float("inf")  # when all must be read
        self._failed = collections.Counter()  # by (submission id, start)
        self._kept = self._found()  # submission id to (end in milliseconds, bytes), the oldest first
        self._dropped = 0  # the end of the newest one for which there was no room

    def _found(self):
        """What a keeper before this one has kept; a file has the time of its job's end."""
        try:
            with os.scandir(self._directory) as files:
                found = {f.name[:-len(SUFFIX)]: (f.stat().st_mtime_ns // 1000000, f.stat().st_size) for f in files if f.name.endswith(SUFFIX)}
        except FileNotFoundError:
            return {}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def want(self, jobs, running=False):
        """Takes the output of those of Ray's jobs that have ended, and of those that run."""
        now = int(1000 * time.time())
        with self._changed:
            wanted = [(end_of(j, now), j) for j in jobs if (running or j["status"] in TERMINAL) and j.get("driver_node_id")]
            self._wanted = sorted((w for w in wanted if self._is_missing(*w)), key=lambda w: w[0])
            if self._wanted and self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="outputs")
                self._thread.start()
            self._changed.notify_all()

    def _is_missing(self, end, job):
        """Whether it is not kept, and can be."""
        name = job["submission_id"]
        if "/" in name or "\0" in name:  # Ray cannot make a log for it
            return False
        if key_of(job) == self._taking or self._failed[key_of(job)] >= TRIES or self._kept.get(name, (0, 0))[0] == end:
            return False
        return self._one > 0 and self._all > 0 and end > self._dropped

    def finish(self, until):
        """Whether all is taken that is wanted. Nothing is read after that time of the monotonic clock, but the end of what is being read."""
        with self._changed:
            self._until = until
            return not self._wanted and self._taking is None

    def _work(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted)
                end, job = self._wanted.pop()
                if time.monotonic() > self._until:
                    self._wanted = []
                    continue
                self._taking = key_of(job)
            try:
                self._take(end, job)
            except Exception as error:  # whatever it is, the others' output is taken
                self._log("the output of job %s: %s: %s" % (job["submission_id"], type(error).__name__, error))
                self._take_again(end, job)
            finally:
                with self._changed:
                    self._taking = None

    def _take_again(self, end, job):
        """Its node may be gone, or the connection was cut."""
        with self._changed:
            self._failed[key_of(job)] += 1
            self._changed.wait(AGAIN)
            if self._failed[key_of(job)] < TRIES:
                self._wanted.append((end, job))

    def _take(self, end, job):
        """Keeps the output of a job."""
        if end <= self._dropped:
            return
        name = job["submission_id"]
        parts, path = self._read(job["driver_node_id"], log_file(name)), os.path.join(self._directory, name + SUFFIX)
        with created(path) as out:
            out.writelines(parts)
        os.utime(path, ns=(end * 1000000, end * 1000000))
        self._kept[name] = (end, sum(map(len, parts)))
        self._drop()

    def _read(self, node, filename):
        """The output; of one that is too long the beginning, a note, and the end."""
        head, tail = ends(self._one)
        got = Ends(head, tail)
        if self._feed(got, node, filename, -1, min(self._until, time.monotonic() + READS)):
            return got.parts()
        last = Ends(0, tail)
        whole = self._feed(last, node, filename, LINES, time.monotonic() + ANSWERS)
        return [got.head, UNREAD] + last.tail() + ([] if whole else [UNREAD])

    def _feed(self, got, node, filename, lines, until):
        """Reads the last lines of a log, -1: all. Returns whether there was enough time."""
        dashboard = self._dashboard_of()
        self._version = self._version or version_tuple(dashboard.version(ANSWERS).get("ray_version", ""))
        path = dashboard.log_path("file", node, filename, lines=lines)
        connection, read = logread.opened(dashboard, path, ANSWERS, self._version, lambda response: response.read1(BLOCK))
        with contextlib.closing(connection):
            while True:
                block = read()
                if not block:
                    return True
                got.add(block)
                if time.monotonic() > until:
                    return False

    def _drop(self):
        """Removes the oldest until there are no more than may be."""
        size = sum(size for _, size in self._kept.values())
        for name, (end, bytes_of_it) in sorted(self._kept.items(), key=lambda item: item[1]):
            if size <= self._all and len(self._kept) <= MOST:
                return
            os.unlink(os.path.join(self._directory, name + SUFFIX))
            del self._kept[name]
            size -= bytes_of_it
            self._dropped = max(self._dropped, end)


class Ends:
    """The first and the last bytes of what is added."""

    def __init__(self, head, tail):
        self._sizes, self._blocks, self._held = (head, tail), collections.deque(), 0
        self.head, self.size = b"", 0

    def add(self, block):
        self.size += len(block)
        first = block[:self._sizes[0] - len(self.head)]
        self.head += first
        self._blocks.append(block[len(first):])
        self._held += len(block) - len(first)
        while self._held - len(self._blocks[0]) >= self._sizes[1]:
            self._held -= len(self._blocks.popleft())

    def tail(self):
        """The last bytes."""
        blocks = list(self._blocks)
        if blocks:
            blocks[0] = blocks[0][max(0, self._held - self._sizes[1]):]
        return blocks

    def parts(self):
        """All, or with a note of how many bytes are left out."""
        gap = self.size - sum(self._sizes)
        return [self.head] + ([GAP % gap] if gap > 0 else []) + self.tail()


def key_of(job):
    """A submission id may be used again."""
    return job["submission_id"], job.get("start_time")


def end_of(job, now):
    """When it ended, in milliseconds."""
    return int(job.get("end_time") or now)
