"""A model of one head of Ray: its dashboard's answers, its nodes, its jobs and their drivers.

What it copies, of Ray 2.60: dashboard/modules/job/job_head.py and job_manager.py (a submission that exists is refused; the answer of a POST may be lost while the job
runs), job_supervisor.py (`stop` is SIGTERM, SIGKILL after RAY_JOB_STOP_WAIT_TIME_S, and the record says STOPPED then; the record follows the end of the process within
some tenths of a second; a PENDING job takes the stop once its actor runs), the state API (rows of nodes that have ended stay), shared/testbed-ray.md."""

import os

from rayctl_keeper.ray.dashboard import Refused, Slow, Unreachable
from rayctl_keeper.state.document import DRAIN

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")


class Driver:
    """A process of the user's: what it writes and how it ends, if nobody ends it before."""

    def __init__(self, world, submission_id):
        self.submission_id = submission_id
        self.chunks = [b"%s line %d\n" % (submission_id.encode(), n) * world.random.randint(1, 40) for n in range(world.random.randint(0, 20))]
        self.pause = world.between(0.0, world.random.choice([0.5, 4.0, 8.0]))
        if world.chance(0.1):
            self.chunks.append(b"long\n")
            self.pause = world.between(20.0, 150.0)
        self.code = world.random.choice([0, 0, 0, 0, 0, 0, 0, 0, 1, 7]) if "-prepare-" in submission_id else world.random.choice([0, 0, 0, 1, 7])
        self.obeys = world.random.choice([0.0, 0.05, 1.0, 1e9])  # seconds from SIGTERM to its end
        self.alive, self.ended_with, self.by_itself, self.written, self.seconds = False, None, False, b"", 0.0


class Job:
    """Ray's record of a submission."""

    def __init__(self, body):
        self.submission_id, self.body = body["submission_id"], body
        self.status, self.code, self.message = "PENDING", None, ""
        self.start = self.end = None
        self.stopping = False
        self.driver = None


class Head:
    """A head and its session, from the start of Ray on until it ends."""

    def __init__(self, world, life, session, grace, directory):
        self.world, self.life, self.session, self.grace = world, life, session, grace
        self.directory = directory  # the node's, where that is on the keeper's host
        self.alive, self.answers, self.died = True, False, None
        self.rows = []
        self.jobs = {}
        self.mute_until = 0.0  # its dashboard takes connections and does not answer
        self.packages = set()
        self.host = self.supervisor = None  # in a Slurm cluster

    # What happens on it.

    def join(self, name, group, is_head):
        """A node is alive in Ray."""
        if self.alive:
            self.rows.append({"node_id": "%s-%s-%d" % (self.session, name, len(self.rows)), "node_name": name, "state": "ALIVE", "is_head_node": is_head,
                              "node_ip": "10.0.0.%d" % (len(self.rows) + 1), "labels": {"ray.io/node-group": group}, "state_message": "",
                              "start_time_ms": int(self.world.time() * 1000), "end_time_ms": 0})
            self.answers = True
            self.world.say("%s: %s is ALIVE" % (self.session, name))

    def lose(self, name):
        """Its health check has found that a node is gone."""
        for row in self.rows:
            if row["node_name"] == name and row["state"] == "ALIVE":
                row.update(state="DEAD", state_message="health check failed", end_time_ms=int(self.world.time() * 1000))

    def die(self):
        """All its processes end at once, with the drivers on it."""
        if self.alive:
            self.alive = self.answers = False
            self.died = self.world.now
            self.world.say("%s ends" % self.session)
            for job in self.jobs.values():
                if job.driver and job.driver.alive:
                    self.life.driver_ends(job.driver, None)
            self.life.head_died(self)

    def _start(self, job):
        """Its actor runs, and starts the driver."""
        if not self.alive or job.status != "PENDING":
            return
        if job.stopping:
            self._finish(job, "STOPPED", None)
            return
        job.status, job.start = "RUNNING", self.world.time()
        job.driver = Driver(self.world, job.submission_id)
        if DRAIN in job.submission_id:
            job.driver.chunks, job.driver.pause = [], 1e9
        self.life.driver_begins(job.driver, self)
        self._go_on(job, 0)

    def _go_on(self, job, number):
        """The driver writes its next lines, or ends."""
        driver = job.driver
        if not driver.alive:
            return
        if number < len(driver.chunks):
            self._write(driver, driver.chunks[number])
            self.world.after(driver.pause, self._go_on, job, number + 1)
        else:
            self.world.after(driver.pause, self._exit, job, driver.code)

    def _write(self, driver, data):
        driver.written += data
        path = self.log_path(driver.submission_id)
        if path:
            with open(path, "ab") as f:
                f.write(data)

    def log_path(self, submission_id):
        return self.directory and os.path.join(self.directory, "t", "session_2", "logs", "job-driver-%s.log" % submission_id)

    def _exit(self, job, code):
        if job.driver.alive:
            job.driver.by_itself = not job.stopping
            self.life.driver_ends(job.driver, code)
            self.world.after(self.world.between(0.01, 0.4), self._finish, job, "STOPPED" if job.stopping else "SUCCEEDED" if code == 0 else "FAILED", code)

    def _finish(self, job, status, code):
        if self.alive and job.status not in TERMINAL:
            job.status, job.end = status, self.world.time()
            job.code = None if status == "STOPPED" else code
            job.message = {"STOPPED": "Job was intentionally stopped.", "FAILED": "Job entrypoint command failed with exit code %s" % code}.get(status, "")

    def _kill(self, job):
        if job.driver and job.driver.alive:
            self.life.driver_ends(job.driver, -9)
            self.world.after(0.1, self._finish, job, "STOPPED", None)

    # What its dashboard is asked. Each returns the answer.

    def version(self):
        return {"ray_version": "2.60.0", "session_name": self.session}

    def job_record(self, submission_id):
        job = self.jobs.get(submission_id)
        if job is None:
            raise Refused(404, "Job %s does not exist" % submission_id)
        return {"submission_id": job.submission_id, "status": job.status, "message": job.message, "driver_exit_code": job.code, "error_type": None,
                "driver_node_id": self.rows[0]["node_id"] if job.start and self.rows else None, "entrypoint": job.body["entrypoint"], "metadata": job.body.get("metadata") or {},
                "start_time": job.start and int(job.start * 1000), "end_time": job.end and int(job.end * 1000), "type": "SUBMISSION"}

    def submit(self, body):
        if body["submission_id"] in self.jobs:
            raise Refused(500, "Job with submission_id %s already exists" % body["submission_id"])
        job = self.jobs[body["submission_id"]] = Job(body)
        self.world.say("%s has the submission %s" % (self.session, job.submission_id))
        self.world.after(self.world.between(0.05, 3.0), self._start, job)
        return {"submission_id": job.submission_id}

    def stop(self, submission_id):
        job = self.jobs.get(submission_id)
        if job is None:
            raise Refused(404, "no such job")
        if job.status in TERMINAL or job.stopping:
            return {"stopped": False}
        job.stopping = True
        if job.status == "RUNNING" and job.driver.alive:
            self.world.say("SIGTERM to %s" % submission_id)
            if job.driver.obeys < self.grace:
                self.world.after(job.driver.obeys, self._exit, job, 143)
            self.world.after(self.grace, self._kill, job)
        return {"stopped": True}

    def log(self, submission_id):
        job = self.jobs.get(submission_id)
        if job is None or job.driver is None:
            raise Refused(404, "no such log")
        return job.driver.written


class Dashboard:
    """In the place of ray.dashboard.Dashboard: the same calls, over a network that delays, loses requests, and loses answers after the request was carried out."""

    def __init__(self, world, find, url):
        self._world, self._find, self.url = world, find, url
        self._aborted = False
        self.answered = 0.0
        self.host, self.port = "sim", 1

    def abort(self):
        self._aborted = True

    def _call(self, timeout, ask):
        world, self._aborted = self._world, False
        world.spend(world.between(0.0005, 0.01))
        head = self._find(self.url)
        if head is None or not head.alive or not head.answers:
            raise Unreachable("%s: Connection refused" % self.url)
        if world.now < head.mute_until:
            until = world.now + timeout
            while world.now < until and world.now < head.mute_until and not self._aborted:
                world.spend(min(0.25, until - world.now))
            if world.now < head.mute_until:
                raise Slow("%s: timed out" % self.url)
        dies = world.life.dies()
        if dies == "before":
            world.life.kill(world.current.process)
            world.look()
        lost = world.life.loses()
        if lost == "request":
            world.fault("a request is lost")
            raise Unreachable("%s: reset" % self.url)
        answer = ask(head)
        if dies == "after":
            world.life.kill(world.current.process)
            world.look()
        world.spend(world.between(0.0005, 0.01))
        if lost == "answer":
            world.fault("an answer is lost")
            raise world.random.choice((Slow, Unreachable))("%s: timed out" % self.url)
        if not head.alive:
            raise Unreachable("%s: cut" % self.url)
        self.answered = world.now
        return answer

    def version(self, timeout=1.0):
        return self._call(timeout, lambda head: head.version())

    def state(self, resource, timeout=2.0, **_query):
        if resource != "nodes":
            return self._call(timeout, lambda head: [])
        return self._call(timeout, lambda head: [dict(row) for row in head.rows])

    def job(self, submission_id, timeout=2.0):
        try:
            return self._call(timeout, lambda head: head.job_record(submission_id))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def submit(self, body, timeout=30.0):
        return self._call(timeout, lambda head: head.submit(body))

    def stop(self, submission_id):
        return self._call(5.0, lambda head: head.stop(submission_id))

    def json(self, _method, path, timeout=2.0, body=None):
        if path == "/api/jobs/":
            return self._call(timeout, lambda head: [head.job_record(name) for name in head.jobs])
        raise Refused(404, path)

    def request(self, _method, path, timeout=2.0, body=None, headers=None):
        return self._call(timeout, lambda head: b"")

    def has_package(self, uri):
        return self._call(60.0, lambda head: uri in head.packages)

    def put_package(self, uri, path):
        with open(path, "rb"):
            pass
        return self._call(300.0, lambda head: head.packages.add(uri))

    def log_path(self, kind, _node_id, filename, **_query):
        return kind + " " + filename

    def open(self, _method, path, timeout, body=None, headers=None):
        name = path.partition(" ")[2]
        if not name.startswith("job-driver-"):
            raise Unreachable("no such log in the model")
        return Connection(), Response(self._call(timeout, lambda head: head.log(name[len("job-driver-"):-len(".log")])))


class Connection:
    def close(self):
        pass


class Response:
    status = 200

    def __init__(self, data):
        self._data = data

    def read(self, size=None):
        found, self._data = (self._data, b"") if size is None else (self._data[:size], self._data[size:])
        return found
