"""Entries of the timeline about requested nodes that the cluster does not get."""

MOST = 50  # notes of one attempt


class Told:
    """Adds each reason once: Ray repeats its requests every second."""

    def __init__(self, state):
        self._state, self._texts = state, {}

    def tell(self, about, code, text):
        """Adds the reason (code, text) why the request `about` gets no nodes."""
        if self._texts.get(about) != text and len(self._texts) < MOST:
            self._texts[about] = text
            self._state.note("scaling", "Refused", code, text)

    def served(self, about):
        """Called when the request has got its nodes: the next reason is added again, also if it is the same."""
        self._texts.pop(about, None)

    def forget(self):
        """Called when another attempt begins: all reasons are added again."""
        self._texts.clear()
