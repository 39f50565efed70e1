"""Waits until a file on this machine is written or truncated: by inotify(7), or by short sleeps where there is no inotify."""

import os
import select
import time

MODIFY = 0x2  # IN_MODIFY: writes and truncations
LOOK = 0.03  # seconds of a sleep without inotify


class Growth:
    """Waits for changes of one open file."""

    def __init__(self, fd):
        self._fd = _inotify(fd)

    def wait(self, seconds):
        """Returns when the file changes, and at the latest after that time; without inotify after LOOK, so that the caller reads the file again."""
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
    """The descriptor of an inotify that watches the open file, whatever name the file has by now; None if the system or this Python has no inotify."""
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
