"""The end of a cluster: driver, log, nodes, record, in this order, whatever fails on the way."""

import os
import time

from rayctl_keeper.driver import rayjob
from rayctl_keeper.ray.dashboard import Refused, Slow, Unreachable
from rayctl_keeper.run import resume
from rayctl_keeper.run.silence import PATIENT
from rayctl_keeper.state.document import RESERVE
from rayctl_keeper.state.exits import limit_end

POLL = 0.1
RUNNING = ("PENDING", "RUNNING")


def finish(keeper, end):
    """Driver, log, nodes, record: in this order, whatever fails."""
    keeper.stopping = True
    keeper.mail_aborts = None  # what is asked of Ray from here on is the end: neither a signal nor another request to end may cut it short
    keeper.log("end %s: %s" % (end.cause, end.message))
    keeper.state.phase("Draining", end.cause, end.message)
    for step in (lambda: stop_drivers(keeper, end), lambda: collect(keeper, reachable=True),
                 lambda: recover(keeper, end), keeper.nodes.stop, keeper.nodes.release):
        try:
            step()
        except Exception as error:
            keeper.log("at the end: %s: %s" % (type(error).__name__, error))
    keeper.driver_log.close()
    try:
        end = heard(keeper, end)
    except Exception as error:  # a commit that cannot be taken: what ended the cluster is still worth a record
        keeper.log("at the end: %s: %s" % (type(error).__name__, error))
    record(keeper, end)


def heard(keeper, end):
    """A client that is still launching an external cluster hands its commit to the keeper itself, and would find nobody: such an end waits
    for it, or for its lease. Who asked for the end needs no telling."""
    if not keeper.nodes.external or end.cause in ("abandoned", "down", "interrupted"):
        return end
    while not keeper.state.doc["committed"] and not keeper.bell.signals:
        due = keeper.limits.due("lease")
        if due is None or due <= time.monotonic():
            return limit_end("lease", keeper.limits.seconds["lease"], end.message)
        keeper.rest(POLL)
    return end


def stop_drivers(keeper, end, others=True):
    """Gives running drivers their grace: the job's own, and those of what was submitted to the cluster besides."""
    grace = float((keeper.orders.get("job") or keeper.orders).get("grace") or 0)
    if end.grace is not None:
        grace = min(grace, end.grace)
    if not keeper.in_use or end.driver is not None or end.cause == "lost" or grace <= 0:
        return
    job, own = keeper.state.doc["job"], None
    if job and job["state"] in RUNNING:
        own = job["submissionId"]
    patience = 1.0 if end.grace is not None else PATIENT  # for Ray to hear of it, unless the substrate is in a hurry
    until, running = time.monotonic() + grace + patience, {}
    while not keeper.now and time.monotonic() < until:
        try:
            if own and own not in running:
                running[own] = ask_to_stop(keeper, own)
                until = time.monotonic() + grace + 1.0  # Ray kills after its own count of the same seconds
            for submission_id in submissions(keeper, own) if others else ():
                running[submission_id] = running.get(submission_id) or ask_to_stop(keeper, submission_id)
                until = time.monotonic() + grace + 1.0
            others = False
            for submission_id in running:
                running[submission_id] = running[submission_id] and still_runs(keeper, submission_id, submission_id == own)
            if not any(running.values()):
                return
        except Slow as error:  # asked again: the driver was promised its grace
            keeper.log("stopping drivers: %s" % error)
        except (Unreachable, Refused) as error:
            keeper.log("stopping drivers: %s" % error)
            return
        keeper.driver_log.pump()
        keeper.rest(POLL)


def submissions(keeper, own):
    """Submission ids of jobs that others sent to the cluster and that run."""
    jobs = keeper.dashboard.json("GET", "/api/jobs/", 5.0)
    return [j["submission_id"] for j in jobs if j.get("submission_id") not in (None, "", own) and j.get("status") in RUNNING]


def ask_to_stop(keeper, submission_id):
    """SIGTERM by Ray, and SIGKILL after the grace that the nodes were started with. Returns whether there was something to stop."""
    try:
        keeper.dashboard.stop(submission_id)
        return True
    except Refused as refused:  # it has just ended
        keeper.log("stopping %s: %s" % (submission_id, refused))
        return False


def still_runs(keeper, submission_id, own):
    """Whether Ray has not seen its end; of the job's own driver all is taken over."""
    info = keeper.dashboard.job(submission_id)
    if info is not None and own:
        keeper.take(info)
    return info is not None and info["status"] not in rayjob.TERMINAL


def collect(keeper, reachable):
    """Saves the driver's log as far as it goes."""
    job = keeper.state.doc["job"]
    if job and job["logFile"]:
        keeper.driver_log.begin_late(job["logFile"], keeper.nodes.directories())
    keeper.driver_log.finish(reachable and keeper.dashboard is not None)
    if keeper.driver_fd is not None:
        os.close(keeper.driver_fd)
        keeper.driver_fd = None


def recover(keeper, end):
    """The output of earlier attempts, if it was lost with the keeper that had it."""
    if keeper.resumed and keeper.dashboard is not None and end.cause != "lost":
        resume.recover_logs(keeper)


def record(keeper, end):
    """Writes result.json and removes what must not stay. The reserve makes room for it on a full disk."""
    for name in os.listdir(keeper.run_dir):
        if name in ("token", "secrets.json", RESERVE) or name.startswith("package-"):
            os.unlink(os.path.join(keeper.run_dir, name))
    if keeper.state.doc["job"] is not None:
        keeper.record_attempt(end.cause, end.message, keeper.state.doc["job"]["exitCode"])
    keeper.state.final(os.path.join(keeper.run_dir, "result.json"), end.document(), keeper.driver_log.document())
