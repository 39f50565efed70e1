"""Waits until a file of this machine is written to, or is truncated: by inotify(7), else by looking at it now and then."""

import os
import select
import time

MODIFY = 0x2  # IN_MODIFY: writes and truncations
LOOK = 0.03  # seconds between looks where there is no inotify


class Growth:
    """What has happened to an open file since the last wait."""

    def __init__(self, fd):
        self._fd = _inotify(fd)

    def wait(self, seconds):
        """Returns at the next change, or after that time, or when it is worth to look again."""
        if self._fd is None:
            time.sleep(min(seconds, LOOK))
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if poll.poll(1000 * seconds):
            os.read(self._fd, 1 << 16)

    def close(self):
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _inotify(fd):
    """The descriptor of an inotify that watches an open file, also one whose name has changed; None where that cannot be had."""
    try:
        import ctypes
        library = ctypes.CDLL(None, use_errno=True)
        watching = library.inotify_init1(os.O_CLOEXEC)
    except (ImportError, OSError, AttributeError):  # a Python without ctypes; another system
        return None
    if watching < 0:
        return None
    if library.inotify_add_watch(watching, b"/proc/self/fd/%d" % fd, MODIFY) < 0:
        os.close(watching)
        return None
    return watching
