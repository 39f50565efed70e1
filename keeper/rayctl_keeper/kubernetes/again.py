"""Repeats the requests of pods to the keeper and to the API server until they are answered."""

import http.client
import time

PAUSES = (0.1, 2, 1.0)  # the first pause in seconds, the factor by which each pause is longer than the one before, and the longest pause
UNANSWERED = (OSError, ValueError, http.client.HTTPException)


def until_answered(seconds, ask, enough=lambda error: False, pauses=PAUSES):
    """Calls ask() until it raises none of UNANSWERED; returns None then. Gives up when so many seconds have passed (None: never) or when enough(error) is true;
    returns the last error then."""
    begun, (pause, growth, longest) = time.monotonic(), pauses
    while True:
        try:
            ask()
            return None
        except UNANSWERED as error:
            if seconds is not None and time.monotonic() > begun + seconds or enough(error):
                return error
        time.sleep(pause)
        pause = min(longest, growth * pause)
