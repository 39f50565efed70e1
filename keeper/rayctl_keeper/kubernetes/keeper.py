"""The keeper in its pod: `keeper.pyz pod-keeper RUN_DIR`. Its result goes to the record's pod, and it watches the nodes of Kubernetes where it may."""

import os
import sys

from rayctl_keeper.kubernetes.nodewatch import NodeWatch
from rayctl_keeper.run import keeper


def main(arguments):
    """Entry point."""
    code = keeper.keep(os.path.abspath(arguments[0]), hands_over=True, node_watch=NodeWatch)
    sys.stdout.flush()
    os._exit(code)  # as run/keeper.py
