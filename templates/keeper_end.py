"""The end of a cluster: driver, log, nodes, record, in this order, whatever fails on the way."""

import os
import time

import keeper_exit
import keeper_job
import keeper_ray
from keeper_state import RESERVE

POLL = 0.1


def finish(keeper, end):
    """Driver, log, nodes, record: in this order, whatever fails."""
    keeper.stopping = True
    keeper.log("end %s: %s" % (end.cause, end.message))
    keeper.state.phase("Draining", end.cause, end.message)
    for step in (lambda: stop_driver(keeper, end), lambda: collect(keeper, reachable=True), keeper.nodes.stop):
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
            return keeper_exit.limit_end("lease", keeper.limits.seconds["lease"], end.message)
        keeper.rest(POLL)
    return end


def stop_driver(keeper, end):
    """Gives a running driver its grace."""
    job = keeper.state.doc["job"]
    if not job or job["state"] not in ("PENDING", "RUNNING") or end.driver is not None or end.cause == "lost":
        return
    grace = float(keeper.orders["job"].get("grace") or 0)
    if end.grace is not None:
        grace = min(grace, end.grace)
    if keeper.now or grace <= 0:
        return
    patience = 1.0 if end.grace is not None else keeper_ray.PATIENT  # for Ray to hear of it, unless the substrate is in a hurry
    until, asked = time.monotonic() + grace + patience, False
    while not keeper.now and time.monotonic() < until:
        try:
            if not asked:
                keeper.dashboard.stop(job["submissionId"])
                asked, until = True, time.monotonic() + grace + 1.0  # Ray kills after its own count of the same seconds
            info = keeper.dashboard.job(job["submissionId"])
        except keeper_ray.Slow as error:  # asked again: the driver was promised its grace
            keeper.log("stopping the driver: %s" % error)
            keeper.rest(POLL)
            continue
        except (keeper_ray.Unreachable, keeper_ray.Refused) as error:
            keeper.log("stopping the driver: %s" % error)
            return
        if info is None:
            return
        keeper.take(info)
        if info["status"] in keeper_job.TERMINAL:
            return
        keeper.driver_log.pump()
        keeper.rest(POLL)


def collect(keeper, reachable):
    """Saves the driver's log as far as it goes."""
    keeper.driver_log.finish(reachable and keeper.dashboard is not None)
    if keeper.driver_fd is not None:
        os.close(keeper.driver_fd)
        keeper.driver_fd = None


def record(keeper, end):
    """Writes result.json and removes what must not stay. The reserve makes room for it on a full disk."""
    for name in os.listdir(keeper.run_dir):
        if name in ("token", "secrets.json", RESERVE) or name.startswith("package-"):
            os.unlink(os.path.join(keeper.run_dir, name))
    if keeper.state.doc["job"] is not None:
        keeper.record_attempt(end.cause, end.message, keeper.state.doc["job"]["exitCode"])
    keeper.state.final(os.path.join(keeper.run_dir, "result.json"), end.document(), keeper.driver_log.document())
