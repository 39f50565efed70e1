"""Which submissions run on a cluster without a job of its own, and whether the cluster is idle."""

import json
import time

from rayctl_keeper.driver.rayjob import TERMINAL, user_command
from rayctl_keeper.ray.dashboard import Refused
from rayctl_keeper.run.limits.waiting import LAZY
from rayctl_keeper.state.document import DRAIN, wall
from rayctl_keeper.state.model import JobState
from rayctl_keeper.state.reserves import waits_for

INTERNAL = "_ray_internal"
ACTIVE = (JobState.PENDING, JobState.RUNNING)
SHOWN = 50  # submissions in the state document; few, because each change writes the whole document
LONGEST = 200  # characters of an entrypoint there
JOBS = 2.0  # seconds between queries of the submissions


class IdleWatch:
    """Shows which submissions run, and lets lifetime.idle count from the last activity."""

    def __init__(self, limits, state, submitted):
        self._limits, self._state, self._submitted = limits, state, submitted
        self._fingerprint = None  # of the previous query of all activity
        self._looked = float("-inf")  # time of that query

    def look(self, dashboard):
        """Puts the submissions into the state. Restarts lifetime.idle if something runs, or has changed since the previous query."""
        jobs = dashboard.json("GET", "/api/jobs/", 5.0)
        show(self._state, jobs)
        self._submitted.keep(jobs)
        now, idle = time.monotonic(), self._limits.seconds["idle"]
        if not idle or now < self._looked + max(LAZY, min(10.0, idle / 5.0)):
            return
        self._looked = now
        busy, fingerprint = activity(dashboard, jobs)
        if busy or fingerprint != self._fingerprint:
            self._limits.restart("idle", time.monotonic())
        self._fingerprint = fingerprint
        self._state.deadlines(self._limits)

    def pace(self):
        """Seconds until the next look."""
        return max(LAZY, min(JOBS, self._limits.seconds["idle"] / 5.0 or JOBS))


def show(state, jobs):
    """Puts the submissions among Ray's jobs into the state. The ended ones stay in the state while Ray lists none: after a restart, the new head does not know
    those that ended on the previous head."""
    state.change(submissions=submissions(jobs), endedSubmissions=ended(jobs, state.doc["name"] + DRAIN) or state.doc["endedSubmissions"])


def ended(jobs, ours):
    """How many submissions have ended, how many of them succeeded, and the last one; None if none has. Those whose id begins with `ours` are the keeper's."""
    found = [j for j in jobs if j.get("submission_id") and j.get("status") in TERMINAL and not j["submission_id"].startswith(ours)]
    if not found:
        return None
    last = max(found, key=lambda j: j.get("end_time") or 0)
    return {"count": len(found), "succeeded": sum(j["status"] == JobState.SUCCEEDED for j in found),
            "last": {"submissionId": last["submission_id"], "state": last["status"], "entrypoint": user_command(last.get("entrypoint") or "")[:LONGEST],
                     "startTime": wall(last["start_time"] / 1000.0) if last.get("start_time") else None}}


def submissions(jobs):
    """The submissions that have not ended, the newest first."""
    active = [j for j in jobs if j.get("submission_id") and j.get("status") in ACTIVE]
    active.sort(key=lambda j: j.get("start_time") or 0, reverse=True)
    return [shown(j) for j in active[:SHOWN]]


def shown(job):
    """The entry of a submission in the state document."""
    entry = {"submissionId": job["submission_id"], "state": job["status"], "entrypoint": user_command(job.get("entrypoint") or "")[:LONGEST],
             "startTime": wall(job["start_time"] / 1000.0) if job.get("start_time") else None}
    waits = waits_for(job)
    return dict(entry, waitsFor=waits[:LONGEST]) if waits else entry


def activity(dashboard, jobs):
    """(busy, fingerprint): busy names what runs ("" if nothing); a changed fingerprint is activity between two looks.

    Busy: a submission job, a running task, a living actor or placement group that holds resources, a Serve application.
    Ray's own activity flag is not used: it counts every open notebook, also one in which nothing runs."""
    running = [j for j in jobs if j.get("submission_id") and j.get("status") in ACTIVE]
    tasks = dashboard.state("tasks", 5.0, filter_keys="state", filter_predicates="=", filter_values="RUNNING", limit=100)
    actors = dashboard.state("actors", 5.0, filter_keys="state", filter_predicates="=", filter_values="ALIVE", detail=1)
    actors = [a for a in actors if not is_internal(a)]
    groups = dashboard.state("placement_groups", 5.0, filter_keys="state", filter_predicates="=", filter_values="CREATED")
    tasks = [t for t in tasks if INTERNAL not in (t.get("name") or "") and not (t.get("name") or "").startswith("JobSupervisor")]
    applications = serve_applications(dashboard)
    fingerprint = (len(jobs), tuple(sorted((str(j.get("job_id")), str(j.get("submission_id")), str(j.get("status"))) for j in jobs)),
                   len(actors), tuple(sorted(applications)))
    busy = ""
    if running:
        busy = "job %s runs" % running[0]["submission_id"]
    elif applications:
        busy = "Serve application %s is deployed" % applications[0]
    elif tasks:
        busy = "task %s runs" % tasks[0].get("name", "")
    elif groups:
        busy = "a placement group holds resources"
    elif any(holds_resources(a) for a in actors):
        busy = "actor %s holds resources" % next(a for a in actors if holds_resources(a)).get("class_name", "")
    return busy, fingerprint


def is_internal(actor):
    """Actors of Ray's own job and Serve machinery."""
    return (actor.get("ray_namespace") or "").startswith(INTERNAL) or actor.get("ray_namespace") == "SUPERVISOR_ACTOR_RAY_NAMESPACE" \
        or INTERNAL in (actor.get("name") or "") or actor.get("ray_namespace") == "serve"


def holds_resources(actor):
    """Whether a living actor keeps CPUs, GPUs or others from being used."""
    return any((actor.get("required_resources") or {}).values())


def serve_applications(dashboard):
    """Names of deployed Serve applications."""
    try:
        answer = json.loads(dashboard.request("GET", "/api/serve/applications/", 5.0).decode())
    except (Refused, ValueError):
        return []  # Ray without Serve
    return list(answer.get("applications") or {})
