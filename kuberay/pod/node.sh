# Read by the shell that is going to start Ray: the user's setup first. If that fails the keeper is told its last lines.
rayctl_log=$(mktemp)
exec 8>&1 9>&2
exec > >(tee "$rayctl_log" >&8; : > "$rayctl_log.whole") 2>&1
trap 'exec 1>&8 2>&9; python3 -E -s /rayctl/report.py "$rayctl_log"' EXIT
set -eE
. /rayctl/setup.sh
set +eE
trap - EXIT
exec 1>&8 2>&9 8>&- 9>&-
unset RAYCTL_KEEPER RAYCTL_KEEPER_TOKEN rayctl_log
