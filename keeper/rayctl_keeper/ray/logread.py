"""The bytes of a log file out of an answer of Ray's state API, whose form has changed twice (ray/dashboard/modules/state/state_head.py):

- from 2.46 on the bytes come as they are, and a failure is a status 500, or later a broken connection;
- from 2.33 on they do so with format=text, but a failure is reported inside the data, at its end;
- before, each block of at most 64 KiB has a 1 before it, and a failure a 0. A live stream has such bytes before blocks of any length, whose
  boundaries are lost if the transport joins them.
"""

from rayctl_keeper.ray.dashboard import Refused, telling_line

MARKER = b"[get_logs] Fetch log error: "  # of 2.33 to 2.45; what follows it is shorter than LONGEST
LONGEST = 4096
BLOCK = 1 << 16  # of versions before 2.33


def can_follow(version):
    """Whether live streams of this version of Ray, as (2, 60), can be read."""
    return version >= (2, 33)


def plain(read, version):
    """Makes of read, which returns the next bytes and at the end none, one that returns the log's. It raises Refused for a failure in the answer."""
    if version >= (2, 46):
        return read
    return Inband(read).read if version >= (2, 33) else Blocks(read).read


class Inband:
    """Holds back what may be a failure until more bytes show that it is the driver's own."""

    def __init__(self, read):
        self._read, self._held = read, b""

    def read(self):
        while True:
            block = self._read()
            if not block:
                if self._held.startswith(MARKER):
                    raise Refused(500, telling_line(self._held[len(MARKER):]))
                held, self._held = self._held, b""
                return held
            block = self._held + block
            cut = _marker_at(block)
            self._held = block[cut:]
            if cut:
                return block[:cut]


def _marker_at(block):
    """Where the last marker, or at the end a beginning of one, is in the block; else its length."""
    at = block.rfind(MARKER)
    if at >= 0 and len(block) - at < LONGEST:
        return at
    for length in range(min(len(MARKER) - 1, len(block)), 0, -1):
        if block.endswith(MARKER[:length]):
            return len(block) - length
    return len(block)


class Blocks:
    """Takes out the byte before each block."""

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
                        raise Refused(500, telling_line(data[1:]))
                    data, self._left = data[1:], BLOCK
                out += data[:self._left]
                data, self._left = data[self._left:], self._left - min(self._left, len(data))
        return out
