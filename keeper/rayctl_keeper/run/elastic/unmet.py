"""What waits in Ray for resources that no node can ever have (rayhook/demand.py): the reason in the status of a cluster that is ready, and notes in the timeline."""

from rayctl_keeper.node.groups.members import is_elastic
from rayctl_keeper.state.model import NodeState, Phase, Reason

MOST, SHOWN = 50, 3  # notes of one attempt, sentences of the reason
HINT = "ask for less, give a group that much in the cluster file, or end it with `rayctl down %s`"


class Unmet:
    """Shows it, and ends nothing: somebody may change what waits. The main thread's."""

    def __init__(self, orders, external, gang, state):
        self._elastic, self._external, self._gang, self._state = is_elastic(orders), external, gang, state
        self._found, self._session, self._noted = [], None, True

    def take(self, sentences):
        """POST /v1/nodes: all that is known of the present head now."""
        self._found, self._session, self._noted = sorted(set(sentences)), self._gang.session, False

    def look(self):
        """Called at each wake."""
        doc = self._state.doc
        if doc["phase"] != Phase.READY:
            return
        found = self._found if self._session == self._gang.session and self._settled(doc) else []
        if found and not self._noted:
            self._noted = True
            self._note(found)
        text = "; ".join(found[:SHOWN]) + (" (and %d more)" % (len(found) - SHOWN) if len(found) > SHOWN else "")
        code, shown = self._state.doc["reason"]["code"], self._state.doc["reason"]["message"]
        if text and code in ("", Reason.UNMET) and shown != text:
            self._state.phase(Phase.READY, Reason.UNMET, text, HINT % doc["name"])
        elif not text and code == Reason.UNMET:
            self._state.phase(Phase.READY)

    def _settled(self, doc):
        """Whether no node is on its way, with which what waits might begin. Elastic groups are judged by what they may have."""
        if self._elastic:
            return True
        if self._external:  # somebody else replaces a lost pod
            return self._gang.complete and all(g["ready"] >= g["wanted"] for g in doc["groups"])
        return self._gang.complete and not any(n["state"] == NodeState.STARTING for n in doc["nodes"])

    def _note(self, found):
        """Each sentence once in an attempt, also where another keeper has noted it."""
        noted = {e["message"] for e in self._state.doc["timeline"] if e["code"] == Reason.UNMET and e["attempt"] == self._state.doc["attempt"]}
        for text in [t for t in found if t not in noted][:max(0, MOST - len(noted))]:
            self._state.note("scaling", "Refused", Reason.UNMET, text)
