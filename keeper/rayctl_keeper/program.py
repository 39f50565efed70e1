"""This program, for those of its processes that start others of it."""

import os

# The zip file that this package is in; of the sources, the directory. Python runs either.
PATH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def command(role, *arguments):
    """What follows Python and its options in argv to run another role (__main__.py)."""
    return [PATH, role] + list(arguments)
