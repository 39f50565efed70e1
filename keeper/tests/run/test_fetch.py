"""run/end/fetch.py: how long the end of a run waits for a client that copies the output directory. Run by `go test ./keeper`."""

import os
import sys
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.run.end import fetch
from rayctl_keeper.state.exits import End, driver_end
from rayctl_keeper.state.model import Cause, Phase
from sample import orders


class Held(unittest.TestCase):
    def held(self, end, reachable=True, events=(), **more):
        """How often the keeper waited, and the phases that it showed. events: what comes during each wait; after the last one nobody comes."""
        now, phases, events = [100.0], [], list(events)
        mail, waiting, state = unittest.mock.Mock(now=False), unittest.mock.Mock(), unittest.mock.Mock(doc={"name": "n", "job": {}})
        waiting.signals.return_value = []
        state.phase.side_effect = lambda *args: phases.append(args[:3])
        state.change.side_effect = lambda job: phases.append(job)
        hold = fetch.Fetch(orders(**more), mail, waiting, state, lambda _: None)
        waits = []

        def rest(_seconds):
            waits.append(now[0])
            now[0] += 10.0
            event = events.pop(0) if events else None
            if event:
                event(hold, mail, waiting)

        waiting.rest.side_effect = rest
        with unittest.mock.patch.object(fetch.time, "monotonic", lambda: now[0]):
            hold.wait(end, reachable)
        return len(waits), phases

    def test_until_a_client_has_it(self):
        def copies(hold, _mail, _waiting):
            hold.hear(False)

        def has(hold, _mail, _waiting):
            hold.hear(True)

        waits, phases = self.held(driver_end(3), events=[copies] * 20 + [has], fetch=True)
        self.assertEqual(waits, 21)
        ends = Phase.DRAINING, Cause.DRIVER_FAILED, "the driver exited with code 3"  # all the time: a keeper after this one goes by it
        self.assertEqual(phases, [ends, {"waitsForFetch": True}, ends, {"waitsForFetch": False}])

    def test_nobody_comes(self):
        self.assertEqual(self.held(driver_end(0), fetch=True)[0], 7)

    def test_not_after_this(self):
        """An end without grace, a signal, nodes that are lost or going, a cluster without a job, and one of which nobody wants files."""
        def at_once(_hold, mail, _waiting):
            mail.now = True

        def signalled(_hold, _mail, waiting):
            waiting.signals.return_value = [15]

        self.assertEqual(self.held(End(Cause.DOWN, ""), events=[at_once], fetch=True)[0], 1)
        self.assertEqual(self.held(driver_end(0), events=[signalled], fetch=True)[0], 1)
        for end, reachable, more in ((End(Cause.LOST, ""), True, {"fetch": True}), (End(Cause.PREEMPTED, ""), True, {"fetch": True}), (End(Cause.DISCONNECTED, ""), True, {"fetch": True}), (driver_end(0), False, {"fetch": True}),
                                     (driver_end(0), True, {"fetch": True, "job": None}), (driver_end(0), True, {})):
            self.assertEqual(self.held(end, reachable, **more), (0, []))


if __name__ == "__main__":
    unittest.main()
