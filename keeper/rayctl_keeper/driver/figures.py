"""Figures that a driver gives for the receipt: lines "rayctl-figure NAME=NUMBER" of its own output."""

import re

TAIL = 1 << 20  # bytes of the end of the output in which they are looked for
MOST = 16  # names; the record of a cluster on Kubernetes has little room
LINE = re.compile(rb"rayctl-figure ([A-Za-z][A-Za-z0-9_.-]{0,31})=([+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?)[ \t]*")


def figures(output):
    """The last number of each of the first names, by name. output: the end of a driver's output, as bytes. A line that is anything else is the driver's own affair."""
    found = {}
    for line in output.splitlines():
        match = LINE.fullmatch(line)
        if match:
            name, number = match.group(1).decode(), match.group(2)
            if name in found or len(found) < MOST:
                found[name] = int(number) if number.lstrip(b"+-").isdigit() else float(number)
    return found
