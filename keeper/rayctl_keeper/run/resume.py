"""A keeper of an external cluster goes on with what the keeper before it knew: after a restart in the same run directory (the directory has
everything), or in another pod (the directory has the state document that somebody kept, but no output)."""

import os
import time

from rayctl_keeper.ray.dashboard import Dashboard, Refused, Unreachable
from rayctl_keeper.run.silence import PATIENT
from rayctl_keeper.state.document import seconds_of
from rayctl_keeper.state.exits import End, driver_end

CARRIED = ("revision", "attempt", "phase", "reason", "since", "groups", "head", "nodes", "job", "committed", "lastRenewal", "endOnDisconnect",
           "deadlines", "timeline")
WAITING = ("", "Queued", "Provisioning")  # phases before the head's first answer
ENDING = ("Draining", "Gone")


def take_over(keeper, earlier):
    """`earlier` is a state document, or only {"deadlines": ...}, or nothing: see keeper.predecessor."""
    if earlier.get("timeline"):
        carry(keeper, earlier)
        count_attempts(keeper, earlier.get("attempts") or [])
        resume_log(keeper)
    resume_limits(keeper, earlier)
    if earlier.get("committed"):
        keeper.limits.stop("lease")
        keeper.limits.seconds["disconnect"] = float(earlier.get("endOnDisconnect") or 0)
        keeper.start_renewals()
    session = (earlier.get("head") or {}).get("session")
    if earlier.get("phase") == "Ready" and session:
        # The gang was complete once, and stays so. Another head than that one is a head that was lost meanwhile.
        keeper.gang.session, keeper.gang.complete = session, True
    if earlier.get("phase") in ENDING:
        keeper.dashboard = keeper.mail_aborts = Dashboard(keeper.nodes.dashboard, keeper.token)
        keeper.asked = the_end(earlier)
        keeper.in_use = True  # drivers that run get their grace


def look_for_packages(keeper):
    """While a client may still watch, perhaps hours before they are needed."""
    doc = keeper.state.doc
    if keeper.resumed and doc["committed"] and doc["job"] and not keeper.submitted(doc["attempt"]):
        keeper.look_for_commit()
        tell_missing(keeper, [p["file"] for p in (keeper.commit or {}).get("packages") or []])


def tell_missing(keeper, names):
    """Shows which packages went with the pod of the keeper before: a client that has them puts them here again. Returns whether any did."""
    missing = [name for name in names if not os.path.exists(os.path.join(keeper.run_dir, os.path.basename(name)))]
    keeper.state.change(missingPackages=missing)
    return bool(missing)


def await_packages(keeper, missing):
    """Waits until a client has put them here; for as long as a launch may take from one piece of a package to the next."""
    lost = "the package %s was lost with the keeper that had it, before the job was submitted" % missing[0]
    before, begun = keeper.state.doc["reason"], time.monotonic()
    if tell_missing(keeper, missing):
        keeper.state.phase(keeper.state.doc["phase"], "PackageMissing", lost + ": waits for a client that has it")
    while tell_missing(keeper, missing):
        if not keeper.nodes.external or time.monotonic() - max(begun, keeper.heard_at) > keeper.limits.seconds["lease"]:
            raise End("lost", lost + "; launch it again")
        keeper.pause(0.5)
    keeper.state.change(reason=before)


def carry(keeper, earlier):
    """The document, and an event that says so."""
    fields = {name: earlier[name] for name in CARRIED if earlier.get(name) is not None}
    if keeper.state.doc["job"] is None:
        fields.pop("job", None)
    keeper.resumed = True
    keeper.log("follows a keeper that was in phase %s, attempt %s" % (fields.get("phase"), fields.get("attempt")))
    event = {"event": "keeper", "to": "resumed", "code": "", "message": "another keeper goes on", "attempt": fields["attempt"]}
    keeper.state.change(event, **fields)


def count_attempts(keeper, attempts):
    """Attempts that have ended use up restarts. One that was about to be counted is still to be judged."""
    ended = [a for a in attempts if a["attempt"] < keeper.state.doc["attempt"]]
    keeper.state.change(attempts=ended)
    for kind, cause in (("driver", "driver-failed"), ("nodeFailure", "lost"), ("timeLimit", "time-limit")):
        keeper.used[kind] = sum(a["cause"] == cause for a in ended)
    if ended:
        keeper.reason = ended[-1]["cause"]


def resume_log(keeper):
    """The output of the attempt that was under way: what is in the run directory stays, the rest comes from the head."""
    job = keeper.state.doc["job"]
    if job and job["driverNodeId"]:
        keeper.driver_log.begin(job["logFile"], job["driverNodeId"], [], stream=job["state"] == "RUNNING", resume=True)


def resume_limits(keeper, earlier):
    """Limits count from when they counted, and fall due when they were to."""
    offset = time.monotonic() - time.time()
    if earlier.get("phase") in WAITING:
        keeper.limits.begin("queue", seconds_of(earlier["since"]) + offset)
        return
    if earlier.get("phase") == "Starting":
        keeper.limits.begin("start", seconds_of(earlier["since"]) + offset)
    for name, due in (earlier.get("deadlines") or {}).items():
        if name in ("max", "total"):
            keeper.limits.resume(name, due and seconds_of(due) + offset)


def the_end(earlier):
    """The End that was being carried out. None: it must be found again."""
    reason, job = earlier.get("reason") or {}, earlier.get("job") or {}
    if reason.get("code") not in ("succeeded", "driver-failed", "driver-signaled"):
        return End(reason.get("code") or "lost", reason.get("message") or "the keeper was lost while it ended the cluster")
    return None if job.get("exitCode") is None else driver_end(job["exitCode"])


def recover_logs(keeper):
    """The output of attempts that have ended, where the run directory lost it with its pod, as far as the head still has it."""
    for attempt in keeper.state.doc["attempts"]:
        path = os.path.join(keeper.run_dir, "driver-%d.log" % attempt["attempt"])
        if not attempt["submissionId"] or os.path.exists(path):
            continue
        try:
            info = keeper.dashboard.job(attempt["submissionId"], PATIENT) or {}
            if info.get("driver_node_id"):
                keeper.driver_log.fetch("job-driver-%s.log" % attempt["submissionId"], info["driver_node_id"], path)
        except (Unreachable, Refused, OSError) as error:
            keeper.log("the output of attempt %d cannot be had again: %s" % (attempt["attempt"], error))
