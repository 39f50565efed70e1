"""Nodes of elastic groups that ended long ago: the state document has their sums, by group, and no longer each of them."""

from rayctl_keeper.state.document import seconds_of
from rayctl_keeper.state.model import Event, JobState, Phase, Purpose

SHOWN = 200  # nodes of elastic groups that have ended and are still listed
FOREVER = float("inf")


def folded(doc, allocations, shown=SHOWN):
    """The fields of the state document for these allocations, which are new: those of elastic groups that ended before the last ones are added to the sums. Pure."""
    former = {f["group"]: dict(f) for f in doc.get("formerAllocations") or []}
    ended = [a for a in allocations if a["released"] and a["purpose"] == Purpose.ELASTIC]
    if len(ended) <= shown:
        return {"allocations": allocations, "formerAllocations": list(former.values())}
    dropped, drivers = sorted(ended, key=lambda a: seconds_of(a["released"]))[:len(ended) - shown], driven(doc.get("timeline") or [])
    for group in {name for a in dropped for name in a["groups"]}:
        former.setdefault(group, {"group": group, "count": 0, "nodeSeconds": 0.0, "busyNodeSeconds": 0.0, "most": 0, "until": ""})
        former[group]["most"] = max(former[group]["most"], most(allocations, group))
    for allocation in dropped:
        _add(former, allocation, drivers)
    gone = {id(a) for a in dropped}
    return {"allocations": [a for a in allocations if id(a) not in gone], "formerAllocations": list(former.values())}


def _add(former, allocation, drivers):
    """One more allocation in the sums of its groups."""
    begin, end = _span(allocation)
    busy = sum(max(0.0, min(end, until) - max(begin, since)) for since, until in drivers)
    for group, count in allocation["groups"].items():
        sums = former[group]
        sums["until"] = allocation["released"]
        if allocation["granted"]:
            sums["count"] += count
            sums["nodeSeconds"] = round(sums["nodeSeconds"] + count * max(0.0, end - begin), 3)
            sums["busyNodeSeconds"] = round(sums["busyNodeSeconds"] + count * busy, 3)


def is_former(allocation, former):
    """Whether one that is not listed is in the sums: whoever derives allocations from Ray's list of nodes sees it there for long."""
    until = {f["group"]: f["until"] for f in former or []}
    return bool(allocation["released"]) and any(until.get(group) and seconds_of(allocation["released"]) <= seconds_of(until[group]) for group in allocation["groups"])


def driven(timeline):
    """When a driver ran, as launcher/durations.go finds it: (from, to) in epoch seconds."""
    spans, began = [], None
    for event in sorted(timeline, key=lambda e: seconds_of(e["at"])):
        at, kind, to = seconds_of(event["at"]), event["event"], event.get("to")
        if kind == Event.JOB and to == JobState.RUNNING:
            began = at if began is None else began
        elif began is not None and (kind == Event.JOB or kind == Event.PHASE and to in (Phase.LOST, Phase.GONE)):
            spans.append((began, at))
            began = None
    return spans + ([(began, FOREVER)] if began is not None else [])


def most(allocations, group):
    """The largest number of a group's elastic nodes at one time."""
    changes = []
    for a in allocations:
        if a["purpose"] == Purpose.ELASTIC and a["granted"] and a["groups"].get(group):
            begin, end = _span(a)
            changes += [(begin, a["groups"][group]), (end, -a["groups"][group])]
    number = largest = 0
    for _, change in sorted(changes):  # at one moment those that go are first
        number += change
        largest = max(largest, number)
    return largest


def _span(allocation):
    end = seconds_of(allocation["released"]) if allocation["released"] else FOREVER
    return (seconds_of(allocation["granted"]) if allocation["granted"] else end), end
