"""What `trinity run` does, whose exit code is 0 even if the explorer or the trainer failed: here it is 1, so that the run does not count as a success."""

import sys

from trinity.cli.launcher import run_stage
from trinity.common.config import load_config
from trinity.utils.plugin_loader import load_plugins

load_plugins()
status = run_stage(load_config(sys.argv[1]).check_and_update())
if not status.success:
    sys.exit("trinity failed in stage %s: %s" % (status.stage, status.error.message if status.error else "no cause is known"))
