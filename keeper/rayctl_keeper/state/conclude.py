"""How a run ended whose keeper died and left no result, for whoever writes the result in its place. The rules are those of launcher/runstate/conclude.go: both pass
the cases of launcher/runstate/testdata/conclude.json. Pure."""

from collections import namedtuple

from rayctl_keeper.state.document import ended_attempt, seconds_of
from rayctl_keeper.state.exits import End
from rayctl_keeper.state.model import CODES, SIGNALLED, Cause, Event, Origin, Phase

# What is known of such an end: at is when, as a document has it; by is who found it; final: the same again would end the same way, whatever the cause.
Verdict = namedtuple("Verdict", ("cause", "message", "at", "by", "final"), defaults=("", False))


def named(doc):
    """The End that a document's reason names, with the exit code of the program that has ended. None: that code is not known."""
    reason, job = doc.get("reason") or {}, doc.get("job") or {}
    end = End(reason.get("code") or "", reason.get("message") or "")
    if end.cause in CODES:
        return end
    prepare = job.get("prepare") or {}
    program = prepare if end.cause == Cause.PREPARE_FAILED and prepare.get("exitCode") is not None else job
    if program.get("exitCode") is None:
        return None
    end.driver = (program["exitCode"], program.get("signal"))
    return end


def begun(doc):
    """The End that the keeper was carrying out when it died. None: there was none, or only a signal, whose cause is unknown, or the code of the program that has
    ended is not known."""
    message = (doc.get("reason") or {}).get("message") or ""
    return named(doc) if doc.get("phase") == Phase.DRAINING and not message.startswith(SIGNALLED) else None


def end_of(doc, verdict):
    """The End of a cluster whose keeper died with this document: the one that it was carrying out, with the program's own code if it had one, else the verdict's."""
    end = begun(doc)
    if end is None or end.driver is None and end.cause == verdict.cause:
        end = End(verdict.cause, verdict.message)
    elif end.driver is None:
        end = End(end.cause, "%s; meanwhile %s" % (end.message, verdict.message))
    end.by, end.retryable = verdict.by, end.retryable and not verdict.final
    return end


def conclude(doc, verdict):
    """The last state document of such a cluster, of the last one that its keeper wrote. What the saved log has is left to the caller."""
    at, timeline = verdict.at, list(doc.get("timeline") or [])
    if timeline and seconds_of(at) < seconds_of(timeline[-1]["at"]):  # clocks differ
        at = timeline[-1]["at"]
    exit = end_of(doc, verdict).document()
    reason = {"code": exit["cause"], "message": exit["message"]}
    attempt = doc.get("attempt") or 1
    event = dict({"at": at, "attempt": attempt, "event": Event.PHASE, "to": Phase.GONE}, **reason)
    return dict(doc, attempt=attempt, revision=doc.get("revision", 0) + 1, phase=Phase.GONE, since=at, reason=dict(reason, hint=""), exit=exit,
                timeline=timeline + [event], attempts=_with_last(doc, attempt, exit, at))


def _with_last(doc, attempt, exit, at):
    """All attempts, also the one whose keeper died."""
    attempts, job = list(doc.get("attempts") or []), doc.get("job") or {}
    if not job.get("submissionId") or attempts and attempts[-1]["attempt"] == attempt:
        return attempts
    last = ended_attempt(dict(doc, attempt=attempt), exit["cause"], exit["message"], None if exit["origin"] == Origin.RAYCTL else exit["code"])
    return attempts + [dict(last, end=job.get("endTime") if exit["origin"] == Origin.DRIVER else at)]
