"""What `ray start` of one node is given: arguments and environment. Pure."""

import json
import math
import os
import re

from rayctl_keeper import program
from rayctl_keeper.host import address, headfile
from rayctl_keeper.node.files import nodedir, raytoken
from rayctl_keeper.node.groups import autoscaling
from rayctl_keeper.node.groups.members import is_elastic, largest, most, on_one_machine
from rayctl_keeper.node.start import burst
from rayctl_keeper.node.start.memory import share, split
from rayctl_keeper.rayhook import waiting

# Of other clusters, of the allocation we are in, of MPI: Ray and nested srun would take them for their own.
FOREIGN = re.compile(r"^(RAY_ADDRESS|RAY_API_SERVER_ADDRESS|RAY_AUTH_\w+|RAY_TMPDIR|RAY_JOB_\w+|RAY_START_HOOK|"
                     r"SLURM_\w+|SLURMD_\w+|SRUN_\w+|PMI\w*|OMPI_\w+|PRTE_\w+|RAYCTL_\w+)$")
# What `srun --overlap` needs to find the allocation (srun(1)). Its other names and the variables of a task stay out: Lightning takes a process with SLURM_NTASKS for one of a
# step, scripts take rank and world size from SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS, Open MPI takes the hosts from the job if there is SLURM_JOBID.
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_SACK_SOCKET", "SLURM_JOB_ID")
INSTANCE = "RAYCTL_INSTANCE"  # Ray's name for this life of the node, where its autoscaler runs
UMASK = "RAYCTL_UMASK"  # the user's, as an octal number: what Ray starts has it


def environment(orders, member, directory, run_dir, secrets, base):
    """The environment of `ray start`, from the one we have (base)."""
    env = {k: v for k, v in base.items() if (v if k in KEPT else not FOREIGN.match(k))}
    python = orders["ray"]["python"]
    if os.path.isabs(python):
        # `python` of an entrypoint is the one that has Ray.
        env["PATH"] = os.pathsep.join([os.path.dirname(python), env.get("PATH") or os.defpath])
    env.setdefault("RAY_agent_register_timeout_ms", "120000")  # of the raylet, for its runtime environment agent; 30 s is not enough under load
    env.setdefault("RAY_DASHBOARD_STARTUP_TIMEOUT_S", "300")  # nor are 60 s for the dashboard; lifetime.start bounds both
    env.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")  # nor 5 s for Serve's proxy, which is then killed, and `serve apply` fails
    if member.head and chosen_by_ray(base):
        env.setdefault("RAY_gcs_server_port_wait_time_s", "120")  # for the file with the GCS' port; 30 s are not enough under load
    # Ray answers its first driver only when as many workers as CPUs have started, and never if one of them took more than 60 s
    # (github.com/ray-project/ray/issues/40131). A job with a working directory cannot use these workers anyway.
    env.setdefault("RAY_prestart_worker_first_driver", "0")
    for name, value in burst.settings(largest(orders), int(base.get("SLURM_CPUS_ON_NODE") or 1)).items():
        env.setdefault(name, value)
    for name, value in collectives(orders, base).items():
        env.setdefault(name, value)
    env.update(orders["ray"].get("env") or {})
    env.update(member.group.get("env") or {})
    env.update(secrets)
    env.update({
        # As in KubeRay's pods. Ray gives it to drivers only; without it the state API in a task (Ray Train calls it) fails where several Rays are on the machine.
        "RAY_ADDRESS": "" if chosen_by_ray(base) else base.get("RAYCTL_GCS", ""),
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": raytoken.path(run_dir, base.get("RAYCTL_ROUND") or 0),
        "RAY_USAGE_STATS_ENABLED": "0", "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAYCTL_NODE_DIR": directory,
        # For all that is submitted to the cluster, by whichever tool.
        "RAYCTL_RUN": orders["name"], "RAYCTL_OUTPUT_DIR": (orders.get("job") or orders).get("outputDir") or "",
        # It takes itself out again before Ray starts anything.
        "RAY_START_HOOK": "rayctl_keeper.rayhook.hook.prepare",
        "RAYCTL_FAST_START": orders["ray"].get("fastStart") or "always",
        "RAYCTL_GCS": base.get("RAYCTL_GCS", ""),
        "RAYCTL_GCS_WAIT": str((orders.get("lifetime") or {}).get("start") or 600),
    })
    if chosen_by_ray(base):
        env[headfile.VARIABLE] = headfile.settings(run_dir, base.get("RAYCTL_ROUND") or 0, largest(orders), base["RAYCTL_GCS"].rpartition(":")[0].strip("[]"),
                                                   base["RAYCTL_DASHBOARD"].rpartition(":")[0].strip("[]"))
    shared = share_of_gpus(orders, member, base)
    if shared is not None:
        env["CUDA_VISIBLE_DEVICES"] = shared
    hook = (orders["ray"].get("env") or {}).get("RAY_START_HOOK")
    if hook:
        env["RAYCTL_USER_START_HOOK"] = hook
    if orders.get("job"):
        env["RAYCTL_JOB"] = "1"
    if on_loopback(orders, base):
        # Where there can be only one node, Ray leaves a loopback address as it is, else it takes the host's instead
        # (resolve_ip_for_localhost). All its servers listen on the loopback address if it is the node's, else on all addresses.
        env["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if is_elastic(orders):
        env.update(autoscaled(orders, member, base, env.get("PYTHONPATH")))
    elif member.head:
        env.update(waiting.settings(run_dir))
    env["RAY_JOB_STOP_WAIT_TIME_S"] = str(int(math.ceil((orders.get("job") or orders).get("grace") or 0)))
    return env


def collectives(orders, base):
    """The interfaces for torch.distributed, where several machines are one cluster. Without the variable Gloo takes the address that the host's name stands for,
    which may be loopback. NCCL searches by itself, InfiniBand first: it is only told what slurm.network says."""
    name = address.interface(base.get("RAYCTL_NODE_IP") or "") if not on_one_machine(orders) and largest(orders) > 1 else ""
    if not name:
        return {}
    return {"GLOO_SOCKET_IFNAME": name, **({"NCCL_SOCKET_IFNAME": name} if orders.get("network") else {})}


def chosen_by_ray(base):
    """Whether the head's GCS and dashboard choose their ports, and every `ray start` is told by a file: headfile.py."""
    return base.get("RAYCTL_DASHBOARD", "").endswith(":0")  # the GCS' is known to nodes that start later


def on_loopback(orders, base):
    """Whether this is the only node of a Ray that has no tokens, at a loopback address: other hosts then must not reach it."""
    return base.get("RAYCTL_NODE_IP") == "127.0.0.1" and largest(orders) == 1 and not is_since(orders["ray"].get("version"), (2, 52))


def autoscaled(orders, member, base, pythonpath):
    """What Ray's autoscaler finds the node by, and on the head its settings, and where its process finds our provider."""
    env = {"RAY_CLOUD_INSTANCE_ID": base.get(INSTANCE, ""), "RAY_NODE_TYPE_NAME": autoscaling.node_type(member)}
    if member.head:
        env.update(autoscaling.settings(orders), PYTHONPATH=os.pathsep.join(p for p in (pythonpath, program.PATH) if p))
    return env


def share_of_gpus(orders, member, base):
    """CUDA_VISIBLE_DEVICES of a node that is not the only one with GPUs on this machine: each Ray would count from the first
    one. None where nothing is to be divided, or where there are fewer than requested: Ray reports that itself."""
    if not on_one_machine(orders) or not member.group.get("gpus"):
        return None
    first = total = 0
    for group in orders["groups"]:
        each = int(group.get("gpus") or 0)
        if group["name"] == member.group["name"]:
            first = total + each * member.ordinal
        total += each * most(group)
    count = int(member.group["gpus"])
    if count == total:
        return None
    visible = base.get("CUDA_VISIBLE_DEVICES")
    ids = visible.split(",") if visible else [str(i) for i in range(total)]
    return ",".join(ids[first:first + count]) if len(ids) >= total else None


def cpus_of(group, base):
    """How many CPUs a node of the group has, as far as it is known; at least 1."""
    cpus = group.get("cpus")
    return max(1, int(float(base.get("SLURM_CPUS_ON_NODE") or os.cpu_count() or 1) if cpus is None else cpus))


def arguments(orders, member, directory, run_dir, base, ports):
    """The arguments of `ray start`; no port has a fixed default. ports: those of this node, by option."""
    group, gcs = member.group, base["RAYCTL_GCS"]
    args = [orders["ray"]["python"]] + program.command(
        "ray", "start", "--block", "--disable-usage-stats", "--node-name=" + member.name, "--temp-dir=" + nodedir.rays(directory),
        "--node-ip-address=" + base["RAYCTL_NODE_IP"])
    args += ["--%s=%s" % named for named in ports.items()]
    if member.head:
        dashboard_host, _, dashboard_port = base["RAYCTL_DASHBOARD"].rpartition(":")
        args += ["--head", "--port=" + gcs.rpartition(":")[2], "--include-dashboard=true",
                 "--autoscaling-config=" + autoscaling.path(run_dir) if is_elastic(orders) else "--no-monitor",
                 "--dashboard-host=" + dashboard_host.strip("[]"), "--dashboard-port=" + dashboard_port,
                 "--ray-client-server-port=" + base["RAYCTL_CLIENT_PORT"]]
    else:
        args += ["--address=" + gcs]
    args += resources(group, directory, base)
    labels = dict(group.get("labels") or {}, **{"rayctl.io/group": group["name"]})
    if is_recent(orders["ray"].get("version")):
        args += ["--labels=" + ",".join("%s=%s" % item for item in sorted(labels.items()))]
    return args


def resources(group, directory, base):
    """Counts of the group; what it leaves open comes from the Slurm allocation if there is one, else from Ray."""
    cpus, gpus, memory, store = group.get("cpus"), group.get("gpus"), group.get("memory"), group.get("objectStoreMemory")
    if base.get("SLURM_JOB_ID"):
        cpus = base.get("SLURM_CPUS_ON_NODE") if cpus is None else cpus
        gpus = base.get("SLURM_GPUS_ON_NODE") or 0 if gpus is None else gpus
        total = share(base) if memory is None else 0
        if total:  # the object store and the processes live in the same allocation
            memory, store = (total - store, store) if store else split(total)
    args = []
    if cpus is not None:
        args.append("--num-cpus=%d" % int(float(cpus)))
    if gpus is not None:
        args.append("--num-gpus=%d" % int(float(gpus)))
    if memory and memory > 0:
        args.append("--memory=%d" % int(memory))
    if store:
        args.append("--object-store-memory=%d" % int(store))
    if group.get("objectSpillingDirectory"):
        args.append("--object-spilling-directory=" + nodedir.spilled(directory, group["objectSpillingDirectory"]))
    if group.get("resources"):
        args.append("--resources=" + json.dumps(group["resources"]))
    return args


def is_recent(version):
    """Whether this is Ray 2.49 or later, which has `--labels=k=v` and raylets that wait for their agents' ports."""
    return is_since(version, (2, 49))


def is_since(version, least):
    """Whether this is at least that (major, minor) of Ray. An unknown version is a new one."""
    try:
        return not version or tuple(int(p) for p in version.split(".")[:2]) >= least
    except ValueError:
        return True
