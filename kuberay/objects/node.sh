# Read by the shell that is going to start Ray.
rayctl_wait=$BASH_ENV
unset BASH_ENV
[ -z "$RAYCTL_WARN_DASHBOARD" ] || trap 'exit 143' TERM # the kernel lets the first process of a pod ignore what it does not handle
# Of a cluster with an early head, or without a scheduler of gangs, this pod reports to the keeper that it has its node.
if [ -n "$RAYCTL_TELL_GROUP" ]; then # the name of the pod is KubeRay's variable
  python3 -E -s /rayctl/keeper.pyz granted worker "$RAYCTL_TELL_GROUP" "${RAY_CLOUD_INSTANCE_ID:-$HOSTNAME}" < /dev/null > /dev/null 2>&1 &
elif [ -n "$RAYCTL_TELL_GRANT" ]; then
  python3 -E -s /rayctl/keeper.pyz granted "$RAYCTL_TELL_GRANT" < /dev/null > /dev/null 2>&1 &
fi
# Run the user's setup first. If it fails, its last lines are sent to the keeper.
if [ -e /rayctl/setup.sh ]; then
  rayctl_log=$(mktemp)
  exec 8>&1 9>&2
  exec > >(tee "$rayctl_log" >&8; : > "$rayctl_log.whole") 2>&1
  trap 'exec 1>&8 2>&9; python3 -E -s /rayctl/keeper.pyz report "$rayctl_log"' EXIT
  set -eE
  . /rayctl/setup.sh
  set +eE
  trap - EXIT
  exec 1>&8 2>&9 8>&- 9>&-
fi
# What the GPUs do is measured by a process of its own, beside Ray, which ends with the pod.
if [ -n "$RAYCTL_GPUS" ]; then
  python3 -E -s /rayctl/keeper.pyz pod-gpus "$RAYCTL_GPUS" "$RAYCTL_GPUS_PERIOD" "$RAYCTL_POD_IP" < /dev/null > /dev/null 2>&1 &
fi
# In the network of the host, whose name may stand for loopback, torch.distributed is told the interface of the pod's address, unless the file or setup says another.
if [ -n "$RAYCTL_HOST_NETWORK_IP" ] && [ -z "$GLOO_SOCKET_IFNAME" ]; then
  rayctl_interface=$(python3 -E -s /rayctl/keeper.pyz interface "$RAYCTL_HOST_NETWORK_IP")
  [ -z "$rayctl_interface" ] || export GLOO_SOCKET_IFNAME=$rayctl_interface
fi
unset RAYCTL_TELL_GRANT RAYCTL_TELL_GROUP RAYCTL_KEEPER RAYCTL_KEEPER_TOKEN RAYCTL_GPUS RAYCTL_GPUS_PERIOD RAYCTL_POD_IP RAYCTL_HOST_NETWORK_IP rayctl_log rayctl_interface
# Then Ray as on the other launchers, see keeper/rayctl_keeper/rayhook, with the Python of the `ray` that is in PATH.
read -r rayctl_line 2>/dev/null < "$(type -P ray)"
read -ra rayctl_python <<< "${rayctl_line#??}"
rayctl_dir=$(mktemp -d)
case "$rayctl_dir $rayctl_line" in
/*" #!"*python | /*" #!"*python3 | /*" #!"*python3.*)
  export RAYCTL_NODE_DIR=$rayctl_dir RAYCTL_GCS=$RAY_ADDRESS RAYCTL_USER_START_HOOK=$RAY_START_HOOK RAY_START_HOOK=rayctl_keeper.rayhook.hook.prepare
  ray() { exec "${rayctl_python[@]}" /rayctl/keeper.pyz ray "$@"; }
  ;;
*) # some other program, or no room for the directory: it starts as it always did, a worker after the head
  [ -z "$RAYCTL_WARN_DASHBOARD" ] || export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0
  until [ "$rayctl_wait" != /rayctl/wait.sh ] || (exec 3<>"/dev/tcp/${RAY_ADDRESS%:*}/${RAY_ADDRESS##*:}") 2>/dev/null; do sleep 0.5; done
  ;;
esac
