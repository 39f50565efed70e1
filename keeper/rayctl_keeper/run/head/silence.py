"""A head whose dashboard does not answer: busy, cut off, or gone? What else is seen of it decides."""

import socket
import time

from rayctl_keeper.ray import addresses
from rayctl_keeper.ray.dashboard import Slow
from rayctl_keeper.state.exits import AttemptLost, duration

PATIENT = 10.0  # seconds for an answer of a head that did not answer: a busy machine takes longer than one that has ended
GONE_AFTER = 30.0  # seconds during which the head's host refuses connections, or the name service answers that there is no such head
UNSEEN = 300.0  # seconds without any sign of life: lifetime.silence, where the orders do not have it
WORTH_TELLING = 10.0  # seconds of silence
LOOK = 3.0  # seconds between looks at what else lives, and for an answer of the GCS

# Every gRPC server answers these first bytes of HTTP/2 with its own SETTINGS (RFC 9113, 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


class Silence:
    """A head that does not answer. One of several questions that is answered breaks it: then the head is slow, not gone."""

    def __init__(self, dashboard, state, signs, limit):
        """signs() returns the names of what is seen alive of the head, and whether the head is certainly gone; limit is lifetime.silence, 0: none."""
        self.dashboard, self.state, self.signs, self.limit = dashboard, state, signs, limit
        self.since = None  # the first question without an answer
        self._unseen = self._gone = None  # since when there is no sign of life, since when the head is known to have ended
        self._looked, self._told = float("-inf"), None

    def patience(self):
        """Seconds for the next answer."""
        return 2.0 if self.since is None else PATIENT

    def broken(self):
        """It answered."""
        if self._told is not None:
            self.state.note("head", "answers", "", "after %s" % duration(time.monotonic() - self.since))
            self.state.phase(self.state.doc["phase"])
        self.since = self._told = None

    def goes_on(self, error):
        """It did not, again. Raises AttemptLost when that is too long."""
        now = time.monotonic()
        if self.since is None or self.dashboard.answered > self.since:
            self.broken()
            self.since = self._unseen = self._gone = now
            self._looked = float("-inf")
        if now - self._looked < LOOK:
            return
        self._looked = now
        alive, gone = self.signs()
        self._unseen = None if alive else self._unseen or now
        self._gone = (self._gone or now) if gone and not alive and not isinstance(error, Slow) else None
        if self._gone is not None and now - self._gone > GONE_AFTER:
            raise AttemptLost("the head does not answer any more: %s" % error)
        if self._unseen is not None and self.limit and now - self._unseen > self.limit:
            raise AttemptLost("the head did not answer for %s (lifetime.silence): %s" % (duration(now - self._unseen), error))
        if now - self.since >= WORTH_TELLING:
            self.tell(alive, error)

    def tell(self, alive, error):
        """In the status what is waited for; in the log and the timeline once, when it begins."""
        if alive:
            text = "the head's dashboard does not answer (%s), but %s alive: waiting for it" % (error, listed(alive))
        else:
            text = "the head does not answer (%s)" % error
            text += "; the cluster is lost after %s of that (lifetime.silence)" % duration(self.limit) if self.limit else ": waiting for it"
        if self._told is None:
            self.state.note("head", "silent", "HeadSilent", text)
        if self._told != bool(alive):
            self._told = bool(alive)
            self.state.phase(self.state.doc["phase"], "HeadSilent", text)


def listed(names):
    """"a is", "a and b are"."""
    return " and ".join(names) + (" is" if len(names) == 1 else " are")


def gcs_lives(address, timeout=LOOK):
    """Whether the GCS at host:port is there: True; False if its host refuses the connection or the name service answers that there is no such host;
    None if neither is certain. A server that accepts the connection and sends nothing is stopped or busy, and counts as there."""
    host, _, port = address.rpartition(":")
    where = addresses.of(host.strip("[]"))
    try:
        connection = where.connect(int(port), timeout)
    except ConnectionRefusedError:
        return False
    except (OSError, ValueError):
        return False if where.unknown else None
    with connection:
        try:
            connection.settimeout(timeout)
            connection.sendall(PREFACE)
            return True if connection.recv(1) else None  # closed at once: a proxy without a server
        except socket.timeout:
            return True
        except OSError:
            return None
