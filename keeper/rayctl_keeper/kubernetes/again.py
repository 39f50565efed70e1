"""Requests that are repeated while nobody answers, for what pods send to the keeper and to the API server."""

import http.client
import time

PAUSES = (0.1, 2, 1.0)  # seconds before the second request, how much longer each further pause is, and the longest one
UNANSWERED = (OSError, ValueError, http.client.HTTPException)


def until_answered(seconds, ask, enough=lambda error: False, pauses=PAUSES):
    """Calls ask() again while it raises one of UNANSWERED, until some seconds have passed (None: there is no limit) or enough(error) is true. Returns None if it was
    answered, else the last error."""
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
