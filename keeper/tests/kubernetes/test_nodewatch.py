"""Nodes of Kubernetes that are going to be taken away. Run by `go test ./keeper`.

The API server is a fake: its real answers, in kuberay's TestNodeTaken, do not expire, and do not end at a chosen moment."""

import os
import shlex
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.host import process
from rayctl_keeper.kubernetes.apiserver import Expired, Refused
from rayctl_keeper.kubernetes.nodewatch import NodeWatch, warning
from rayctl_keeper.run.end.warned import Warned
from rayctl_keeper.run.gang.hopeless import Hopeless
from rayctl_keeper.state.exits import AttemptLost, Leaving


def node(*keys, name="node1"):
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys]}}


POD = {"metadata": {"name": "p", "resourceVersion": "1"}, "spec": {"nodeName": "node1"}, "status": {"podIP": "10.0.0.1"}}


class Server:
    """Each list of nodes is the next one of lists, each watch the next one of watches: events, and an exception at the end, or None to stay open."""

    def __init__(self, lists, watches):
        self.lists, self.watches, self.usable, self.namespace = list(lists), list(watches), lambda: True, lambda: "n"

    def list(self, path, **query):
        if path.endswith("/pods"):
            assert query == {"labelSelector": "ray.io/cluster=c"}, query
            yield [POD], "1"
            return
        found = self.lists.pop(0)
        if isinstance(found, Exception):
            raise found
        yield found, "1"

    def watch(self, path, version, **_query):
        if path.endswith("/pods") or not self.watches:
            threading.Event().wait()
        events, end = self.watches.pop(0)
        yield from events
        if end is not None:
            raise end


class Watches(unittest.TestCase):
    def test_warning(self):
        """Cordoned nodes and candidates are not going to be taken away; a time that is known goes before one that is not."""
        self.assertIsNone(warning(node()))
        self.assertIsNone(warning({"metadata": {"name": "x"}, "spec": {}}))
        self.assertIsNone(warning(node("node.kubernetes.io/unschedulable", "DeletionCandidateOfClusterAutoscaler")))
        self.assertEqual(warning(node("karpenter.sh/disrupted"))[0], 0)
        self.assertEqual(warning(node("karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn"))[0], 120)

    def test_other_signs(self):
        """Labels, annotations and conditions count only with the value that announces an end; of several times the nearest counts."""
        def sign(labels=None, annotations=None, conditions=()):
            return dict(node(), metadata={"name": "x", "labels": labels, "annotations": annotations},
                        status={"conditions": [{"type": kind, "status": status} for kind, status in conditions]})

        drain, health, maintenance = "machineconfiguration.openshift.io/desiredDrain", "sagemaker.amazonaws.com/node-health-status", "cloud.google.com/active-node-maintenance"
        for none in (sign(), sign({health: "Schedulable", maintenance: "SCHEDULED", "cloud.google.com/scheduled-maintenance-time": "1"}),
                     sign(annotations={drain: "uncordon-worker-1", "weave.works/kured-most-recent-reboot-needed": "2026-01-01T00:00:00Z"}),
                     sign(conditions=(("PreemptScheduled", "False"), ("RebootScheduled", "Unknown"), ("FreezeScheduled", "True"), ("KernelDeadlock", "True")))):
            self.assertIsNone(warning(none))
        for one, why in ((sign({maintenance: "ONGOING"}), "Google"), (sign({health: "UnschedulablePendingReplacement"}), "replace"),
                         (sign(annotations={drain: "drain-worker-1"}), "OpenShift"), (sign(annotations={"weave.works/kured-reboot-in-progress": "2026-01-01T00:00:00Z"}), "kured"),
                         (sign(conditions=(("TerminateScheduled", "True"),)), "delete")):
            self.assertIn(why, warning(one)[1])
        self.assertEqual(warning(sign({maintenance: "ONGOING"}, None, (("RebootScheduled", "True"), ("PreemptScheduled", "True"))))[0], 30)

    def test_evicted(self):
        """A head whose pod used too much is not preempted; another eviction is a preemption, also if the keeper only saw the head's end. Of workers nothing is kept."""
        watch = NodeWatch("c", process.Bell(), Server([], []))
        hopeless = Hopeless(watch, None)

        def ends(kind, reason, lost):
            watch._take_pod({"metadata": {"name": "p", "labels": {"ray.io/node-type": kind}}, "status": {"reason": "Evicted", "message": reason}})
            return [hopeless.lost(lost) for _ in range(2)]

        gone, leaves, own = AttemptLost("gone"), Leaving("leaves", 1), "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
        self.assertEqual(ends("worker", own, gone), [("gone", "lost")] * 2)
        first, second = ends("head", own, leaves)
        self.assertEqual(first[1], "lost")
        self.assertIn("pod p was evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Mi; write less", first[0])
        self.assertEqual(second, ("leaves", "preempted"))
        self.assertEqual(ends("head", "The node was low on resource: memory.", gone)[0], ("the head's pod p was evicted: The node was low on resource: memory", "preempted"))

    def until(self, watch, known):
        limit = time.monotonic() + 20
        while {address: found[0] for address, found in watch.warned().items()} != known and not watch.refused:
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)

    def test_changes(self):
        """A taint that comes with a list or an event counts, also after a watch has expired, and one that goes does not."""
        tainted = node("karpenter.sh/disrupted")
        for lists, watches, known in (
                ([[tainted]], [], {"10.0.0.1": "node1"}),
                ([[node()]], [([("MODIFIED", tainted)], None)], {"10.0.0.1": "node1"}),
                ([[tainted]], [([("BOOKMARK", node()), ("MODIFIED", node())], None)], {}),
                ([[tainted]], [([("DELETED", tainted)], None)], {}),
                ([[tainted], [node(name="other")]], [([], Expired("too old"))], {}),
                ([[node()], [tainted]], [([], Expired("too old"))], {"10.0.0.1": "node1"}),
        ):
            watch = NodeWatch("c", process.Bell(), Server(lists, watches))
            self.assertTrue(watch.begin())
            self.until(watch, known)

    def test_refused(self):
        """What the account may not do is noted once."""
        notes = []

        class State:
            doc = {"nodes": [], "head": {"nodeId": ""}}

            def note(self, *words):
                notes.append(words[-1])

        watch = NodeWatch("c", process.Bell(), Server([Refused("403 nodes is forbidden")], []))
        warned = Warned({"name": "c"}, watch, None, State(), print)
        self.until(watch, {"never": ""})
        warned.look()
        warned.look()
        self.assertEqual(notes, ["the nodes of Kubernetes cannot be watched: 403 nodes is forbidden"])

    def test_a_second_warning(self):
        """Only one that leaves less time than the first changes what Ray has been asked for."""
        class Watch:
            def begin(self):
                return True

            refused = ""

            def warned(self):
                return {"10.0.0.1": self.found}

        class State:
            doc = {"nodes": [{"host": "10.0.0.1", "state": "ALIVE", "nodeId": "1", "name": "w-0"}], "head": {"nodeId": "0"}}

            def note(self, *words):
                pass

        watch, head, asked = Watch(), unittest.mock.Mock(), []
        warned = Warned({"name": "c"}, watch, head, State(), print)
        head.dashboard.submit = lambda job, timeout: asked.append((job["submission_id"], int(shlex.split(job["entrypoint"])[3]) / 1000))
        for seconds, why, drains in ((0, "is cordoned", 1), (600, "Karpenter ends it", 2), (900, "is tainted", 2), (0, "is cordoned again", 2), (60, "its spot machine ends", 3), (60, "its spot machine ends", 3)):
            watch.found = ("node1", seconds, why, time.monotonic())
            warned.look()
            self.assertEqual(len(asked), drains, why)
        self.assertEqual(len({name for name, _ in asked}), 3)  # Ray refuses an id that it has had
        self.assertEqual([round(until and until - time.time(), -1) for _, until in asked], [0, 600, 60])


if __name__ == "__main__":
    unittest.main()
