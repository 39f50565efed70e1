"""Prints the interface that has an address of this pod, or an empty line: `keeper.pyz interface ADDRESS`."""

from rayctl_keeper.host import address


def main(arguments):
    """Entry point."""
    print(address.interface(arguments[0]))
    return 0
