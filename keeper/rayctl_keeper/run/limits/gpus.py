"""What the nodes' GPUs do: the figures of node/gpus/gpus.py, and lifetime.idleGpu. The main thread's, but for take()."""

import time

from rayctl_keeper.node.gpus.gpus import period_of
from rayctl_keeper.state.exits import duration
from rayctl_keeper.state.model import AllocationState, NodeState, Phase, Reason

IDLE = Reason.GPUS_DO_NOTHING  # code of the reason in the status
FRESH = 5  # periods after which a report is too old to end anything


class GpuWatch:
    """Lets lifetime.idleGpu count while the GPUs of all nodes are read, and idle."""

    def __init__(self, orders, nodes, gang, limits, state):
        self._nodes, self._gang, self._limits, self._state = nodes, gang, limits, state
        self._of = {g["name"]: int(g.get("gpus") or 0) for g in orders["groups"]}
        self._period = period_of(orders)
        self._next = 0.0
        self._shown = float("-inf")
        self._told = False
        self._ready = None  # since when the cluster is
        self._posted = {}  # of pods
        self._last = {}  # node -> (its report, when that came)
        self._sums = {}  # node -> (begun, sums of the processes before, the last report)

    def take(self, report):
        """From the API: what a pod has measured."""
        self._posted[report["node"]] = report

    def look(self):
        """Called at each wake."""
        now = time.monotonic()
        if not any(self._of.values()) or now < self._next:
            return
        self._next = now + min(self._period, 5.0)
        names = self._expected()
        for name, member in names:
            report = self._posted.get(name) if member is None else self._nodes.gpus(member)
            if report and report != self._last.get(name, (None,))[0]:
                self._last[name] = (report, now)
                self._add(name, report)
        self._judge([name for name, _ in names], now)
        if now >= self._shown + self._period:
            self.show()

    def _expected(self):
        """Nodes with GPUs that are there, and our member, None for a pod."""
        if self._nodes.external:
            return [(n["host"], None) for n in self._state.doc["nodes"] if n["state"] == NodeState.ALIVE and self._of.get(n["group"])]
        return [(m.name, m) for m in self._nodes.all() if self._of.get(m.group["name"]) and m.name not in self._gang.dead
                and (not m.serial or (self._nodes.standing(m) or ("",))[0] == AllocationState.GRANTED)]

    def _add(self, name, report):
        begun, before, last = self._sums.get(name) or ("", self._known(name), None)
        if begun != report["begun"] and last:
            before = (before[0] + last["seconds"], before[1] + last["busySeconds"])
        self._sums[name] = (report["begun"], before, report)

    def _known(self, name):
        """What a keeper before this one has shown."""
        row = next((g for g in self._state.doc["gpus"] if g["node"] == name), None)
        return (row["seconds"], row["busySeconds"]) if row else (0.0, 0.0)

    def _judge(self, names, now):
        if self._state.doc["phase"] != Phase.READY or not self._gang.complete:
            self._ready, self._told, self._limits.told = None, False, False
            self._limits.stop("idleGpu")
            return
        self._ready = self._ready or now
        oldest, busy = now - max(60.0, FRESH * self._period), []
        for name in names:
            report, came = self._last.get(name, (None, 0.0))
            if report is None or came < oldest or report["message"]:
                self._unread(name, report)
                busy = []
                break
            busy.append(came - report["idle"])
        if not busy or not self._limits.seconds["idleGpu"]:
            self._limits.stop("idleGpu")
            self._tell(False)
            return
        self._limits.restart("idleGpu", max(busy + [self._ready]))
        self._tell(self._limits.left("idleGpu", now) <= self._limits.seconds["idleGpu"] / 2.0)

    def _unread(self, name, report):
        """Noted once, when the reason is known."""
        if report and report["message"] and not any(e["event"] == "gpus" and e["code"] == name for e in self._state.doc["timeline"]):
            ends = ": lifetime.idleGpu ends nothing" if self._limits.seconds["idleGpu"] else ""
            self._state.note("gpus", "unread", name, "the GPUs of %s are not measured%s: %s" % (name, ends, report["message"]))
            self.show()

    def _tell(self, idle):
        """Half of the time before the end."""
        if idle == self._told:
            return
        self._told = self._limits.told = idle
        self._state.deadlines(self._limits)  # who reads the reason reads the moment, too
        if idle:
            half, left = duration(self._limits.seconds["idleGpu"] / 2.0), duration(max(1.0, self._limits.left("idleGpu", time.monotonic())))
            text = "all GPUs have done nothing for %s: the cluster ends in %s if that continues (lifetime.idleGpu)" % (half, left)
            self._state.phase(Phase.READY, IDLE, text)
            self._state.note("gpus", "idle", IDLE, text)
        else:
            if self._state.doc["reason"]["code"] == IDLE:
                self._state.phase(Phase.READY)
            self._state.note("gpus", "busy", IDLE, "the GPUs are used again")
        self.show()

    def show(self):
        """The figures in the state document."""
        self._shown = time.monotonic()
        rows = {g["node"]: g for g in self._state.doc["gpus"]}
        for name, (_, before, report) in self._sums.items():
            rows[name] = {"node": name, "count": report["count"], "seconds": round(before[0] + report["seconds"], 1),
                          "busySeconds": round(before[1] + report["busySeconds"], 1), "message": report["message"]}
        self._state.change(gpus=[rows[name] for name in sorted(rows)])
