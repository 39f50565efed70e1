"""What keeps a companion job from being submitted, by sbatch's own words (reasons.py: from being started): it is not asked for again."""

# sbatch's refusals of what the cluster file asks for: those of slurm/site/refused.go that are answered by another file (slurm/src/common/slurm_errno.c).
REFUSALS = ("invalid partition", "invalid account", "invalid qos", "requested node configuration is not available", "requested node config is not available",
            "more processors requested than permitted", "requested time limit is invalid", "invalid trackable resource", "invalid generic resource",
            "invalid feature specification", "invalid node name", "requested reservation is invalid", "memory specification can not be satisfied",
            "memory required by task is not available", "unrecognized option", "invalid license", "invalid wckey")
# Refusals whose reason is that this node may not submit jobs: no sbatch there, no credentials (munge), or a partition with AllocNodes (slurm.conf(5)).
OF_THE_NODE = ("no such file", "permission denied", "access/permission denied", "munge", "protocol authentication error", "invalid user id")


def refused_for_ever(words):
    """Whether sbatch would answer the same again."""
    return any(text in words.lower() for text in REFUSALS)


def refused_here(words):
    """Whether another node might submit it."""
    return any(text in words.lower() for text in OF_THE_NODE)
