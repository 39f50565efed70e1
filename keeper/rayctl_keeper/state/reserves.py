"""Amounts of Ray's resources in words. What the driver reserves for itself; launcher/orders/reservation.go has the same. And what a job waits for; dashboardclient/jobs.go
has the same."""

from rayctl_keeper.state.model import JobState

OWN = ("CPU", "GPU", "memory")  # Ray's own resources come first
OF_BYTES = {"memory": "memory", "object_store_memory": "the object store"}
RESERVES = "rayctl.reserves"  # of a job's metadata in Ray: what its driver reserves


def reserves(job):
    """"100 CPUs, 1 GPU"; "" for nothing."""
    known = {"CPU": job.get("entrypointNumCpus"), "GPU": job.get("entrypointNumGpus"), "memory": job.get("entrypointMemory")}
    parts = [words({name: n for name, n in amounts.items() if n}) for amounts in (known, job.get("entrypointResources") or {})]
    parts += ["label %s=%s" % item for item in sorted((job.get("entrypointLabelSelector") or {}).items())]
    return ", ".join(part for part in parts if part)


def words(amounts):
    """Amounts by Ray's names of resources: "2 CPUs, 0 GPUs, 4 GiB of memory, 1 rollout"; "" for none."""
    order = sorted(amounts, key=lambda name: (OWN.index(name) if name in OWN else len(OWN), name))
    return ", ".join("%.4g GiB of %s" % (amounts[name] / (1 << 30), OF_BYTES[name]) if name in OF_BYTES else "%g %s" % (amounts[name], name) + ("s" if name in OWN and amounts[name] != 1 else "")
                     for name in order)


def waits_for(record):
    """What a job that Ray has not started waits for, by Ray's record; "" of any other. Ray does not say whether it is the resources or the environment."""
    reserved = " ".join(((record.get("metadata") or {}).get(RESERVES) or "").split())  # anybody's
    if record.get("status") != JobState.PENDING:
        return ""
    if reserved:
        return "a node with %s free, or its environment" % reserved
    if "waiting for resources" in (record.get("message") or ""):  # Ray's own words, of a job that another tool submitted
        return "a node with what it reserves free, or its environment"
    return "its environment, with its packages and files"
