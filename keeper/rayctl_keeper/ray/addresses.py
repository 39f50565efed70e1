"""The addresses of hosts. The last address that worked is kept, so that a healthy head can be reached while the name service does not answer."""

import socket
import threading
import time

FRESH = 30.0  # seconds after which a name is resolved again in the background: a head may move, and its old address may be given to another host
NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))

_all = {}  # host -> Address


def of(host):
    """Returns the Address object of a host; there is one for each host."""
    return _all.setdefault(host, Address(host))


class Address:
    """One host's addresses. Names are resolved in a thread: without an answer of the name service, getaddrinfo takes a minute and cannot be cut short."""

    def __init__(self, host):
        self.host, self.error = host, None  # error: of the last resolution, None if it succeeded
        self._changed = threading.Condition()
        self._known, self._asking, self._asked = [], False, float("-inf")
        try:
            self._known = [a[4][0] for a in socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)]
            self._fixed = True
        except OSError:
            self._fixed = False

    @property
    def unknown(self):
        """Returns whether the name service has answered that the name does not exist, as Kubernetes does for a head without a pod."""
        return isinstance(self.error, socket.gaierror) and self.error.errno in NO_SUCH_NAME

    def connect(self, port, timeout):
        """Returns a connection to the first known address that accepts one, beginning with the last that worked. If none does, resolves the name again and tries the
        addresses that are new. Raises OSError."""
        until = time.monotonic() + timeout
        if time.monotonic() - self._asked > FRESH:
            self._ask()
        known, error = list(self._known), None
        for again in (False, True):
            for ip in known:
                try:
                    connection = socket.create_connection((ip, port), max(0.05, until - time.monotonic()))
                except OSError as failed:
                    error = failed
                    continue
                self._known.sort(key=lambda other: other != ip)  # moves ip to the front: the next call tries it first
                return connection
            if again or self._fixed:
                break
            known = [ip for ip in self._resolved(until) if ip not in known]
        raise error or self.error or socket.timeout("%s was not resolved in time" % self.host)

    def _resolved(self, until):
        """Resolves the name again and returns its addresses; if that is not done at the given time, returns the addresses that were known before."""
        self._ask()
        with self._changed:
            self._changed.wait_for(lambda: not self._asking, max(0.0, until - time.monotonic()))
            return list(self._known)

    def _ask(self):
        """Starts a resolution in a thread, unless one runs already."""
        with self._changed:
            if self._asking or self._fixed:
                return
            self._asking, self._asked = True, time.monotonic()
        threading.Thread(target=self._resolve, daemon=True, name="resolve").start()

    def _resolve(self):
        found, error = [], None
        try:
            for family, _, _, _, address in socket.getaddrinfo(self.host, None, 0, socket.SOCK_STREAM):
                if family in (socket.AF_INET, socket.AF_INET6) and address[0] not in found:
                    found.append(address[0])
        except (OSError, UnicodeError) as failed:
            error = failed if isinstance(failed, OSError) else OSError(str(failed))
        with self._changed:
            if found:
                self._known = sorted(found, key=lambda ip: ip not in self._known[:1])  # the address that was first stays first, if the name still has it
            self.error, self._asking = error, False
            self._changed.notify_all()
