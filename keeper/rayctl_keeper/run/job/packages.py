"""Packages that were lost with the pod of an earlier keeper: a client that has them uploads them again."""

import os
import time

from rayctl_keeper.state.exits import End
from rayctl_keeper.state.model import Cause


class Packages:
    """Lists the missing packages in the state document, and waits for them."""

    def __init__(self, run_dir, external, limits, mail, waiting, state):
        self._run_dir, self._external, self._limits = run_dir, external, limits
        self._mail, self._waiting, self._state = mail, waiting, state

    def show_missing(self, names):
        """Writes the packages that are not in the run directory into the state document; returns whether there are any."""
        missing = [name for name in names if not os.path.exists(os.path.join(self._run_dir, os.path.basename(name)))]
        self._state.change(missingPackages=missing)
        return bool(missing)

    def wait_for(self, missing):
        """Waits until a client has uploaded them. The wait ends when no piece of a package has arrived for the time of a launch's lease."""
        lost = "the package %s was lost with the keeper that had it, before the job was submitted" % missing[0]
        before, begun = self._state.doc["reason"], time.monotonic()
        if self.show_missing(missing):
            self._state.phase(self._state.doc["phase"], "PackageMissing", lost + ": waiting for a client that has it")
        while self.show_missing(missing):
            if not self._external or time.monotonic() - max(begun, self._mail.heard_at) > self._limits.seconds["lease"]:
                raise End(Cause.LOST, lost + "; launch it again")
            self._waiting.pause(0.5)
        self._state.change(reason=before)
