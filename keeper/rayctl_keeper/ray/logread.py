"""Extracts the bytes of a log file from a response of Ray's state API. The format of the response depends on Ray's version
(ray/dashboard/modules/state/state_head.py):

- from 2.46 on the body is the log itself; a failure is a status 500, or a broken connection if it happens later;
- from 2.33 on the body with format=text is the log itself, but a failure is reported in the body, at its end;
- before 2.33 a byte 1 precedes each block of at most 64 KiB, and a byte 0 precedes a failure. In a live stream the blocks have any length, and
  their boundaries are lost if the transport joins them.
"""

import contextlib

from rayctl_keeper.ray.dashboard import Refused, error_line

MARKER = b"[get_logs] Fetch log error: "  # of 2.33 to 2.45; the text after it is shorter than LONGEST
LONGEST = 4096
BLOCK = 1 << 16  # of versions before 2.33


def can_follow(version):
    """Returns whether live streams of this version of Ray, a tuple such as (2, 60), can be read."""
    return version >= (2, 33)


def opened(dashboard, path, timeout, version, read):
    """Asks for a log. Returns the connection, and a function for the next bytes of the log; read gives them from the response."""
    connection, response = dashboard.open("GET", path, timeout)
    if response.status != 200:
        with contextlib.closing(connection):
            raise Refused(response.status, error_line(response.read()))
    return connection, plain(lambda: read(response), version)


def plain(read, version):
    """Wraps read, a function that returns the next bytes of a response and b"" at its end. Returns such a function for the bytes of the log; it raises Refused
    if the response reports a failure."""
    if version >= (2, 46):
        return read
    return Inband(read).read if version >= (2, 33) else Blocks(read).read


class Inband:
    """Holds back bytes that may report a failure until more bytes show that the driver has printed them."""

    def __init__(self, read):
        self._read, self._held = read, b""

    def read(self):
        while True:
            block = self._read()
            if not block:
                if self._held.startswith(MARKER):
                    raise Refused(500, error_line(self._held[len(MARKER):]))
                held, self._held = self._held, b""
                return held
            block = self._held + block
            cut = _marker_at(block)
            self._held = block[cut:]
            if cut:
                return block[:cut]


def _marker_at(block):
    """Returns the index in the block of the last marker, or of a beginning of a marker at the block's end; without either, the block's length."""
    at = block.rfind(MARKER)
    if at >= 0 and len(block) - at < LONGEST:
        return at
    for length in range(min(len(MARKER) - 1, len(block)), 0, -1):
        if block.endswith(MARKER[:length]):
            return len(block) - length
    return len(block)


class Blocks:
    """Removes the byte that precedes each block."""

    def __init__(self, read):
        self._read, self._left = read, 0

    def read(self):
        out = b""
        while not out:  # a lead byte alone is not the end
            data = self._read()
            if not data:
                break
            while data:
                if self._left == 0:
                    if data[:1] in (b"0", b"\0"):
                        raise Refused(500, error_line(data[1:]))
                    data, self._left = data[1:], BLOCK
                out += data[:self._left]
                data, self._left = data[self._left:], self._left - min(self._left, len(data))
        return out
