"""Notes about demand that gets no nodes."""

MOST = 50  # notes of one attempt


class Told:
    """Notes each reason once: Ray repeats what it asks for every second."""

    def __init__(self, state):
        self._state, self._texts = state, {}

    def tell(self, about, code, text):
        """The reason why something (about) gets no nodes."""
        if self._texts.get(about) != text and len(self._texts) < MOST:
            self._texts[about] = text
            self._state.note("scaling", "Refused", code, text)

    def served(self, about):
        """It got its nodes: the next reason is noted, also if it is the same."""
        self._texts.pop(about, None)

    def forget(self):
        """Another attempt begins."""
        self._texts.clear()
