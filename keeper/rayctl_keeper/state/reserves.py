"""What the driver reserves for itself, in words; launcher/orders/reservation.go has the same."""


def reserves(job):
    """"100 CPUs, 1 GPU"; "" for nothing."""
    amounts = [(job.get("entrypointNumCpus"), "CPU"), (job.get("entrypointNumGpus"), "GPU")]
    parts = ["%g %s%s" % (n, name, "" if n == 1 else "s") for n, name in amounts if n]
    if job.get("entrypointMemory"):
        parts.append("%.4g GiB of memory" % (job["entrypointMemory"] / (1 << 30)))
    parts += ["%g %s" % (n, name) for name, n in sorted((job.get("entrypointResources") or {}).items()) if n]
    parts += ["label %s=%s" % item for item in sorted((job.get("entrypointLabelSelector") or {}).items())]
    return ", ".join(parts)
