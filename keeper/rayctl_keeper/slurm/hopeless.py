"""What keeps a companion job from ever starting, by Slurm's own words: it is not asked for again."""

# Reasons of jobs in the queue that do not pass by waiting: those of slurm/controller/reason.go (squeue(1), JOB REASON CODES).
REASONS = ("DependencyNeverSatisfied", "BadConstraints", "PartitionTimeLimit", "InvalidAccount", "InvalidQOS", "ReservationDeleted",
           "launch_failed_requeued_held")
# sbatch's refusals of what the cluster file asks for: those of slurm/site/refused.go that are answered by another file (slurm/src/common/slurm_errno.c).
REFUSALS = ("invalid partition", "invalid account", "invalid qos", "requested node configuration is not available", "requested node config is not available",
            "more processors requested than permitted", "requested time limit is invalid", "invalid trackable resource", "invalid generic resource",
            "invalid feature specification", "invalid node name", "requested reservation is invalid", "memory specification can not be satisfied",
            "memory required by task is not available", "unrecognized option", "invalid license", "invalid wckey")
# Refusals that say that it is this node that may not submit: no sbatch there, no credentials (munge), or a partition with AllocNodes (slurm.conf(5)).
OF_THE_NODE = ("no such file", "permission denied", "access/permission denied", "munge", "protocol authentication error", "invalid user id")


def waits_for_ever(reason):
    """Whether a job that waits for this reason can never start."""
    return reason.split(",")[0].strip().strip("()").replace(" ", "_") in REASONS


def refused_for_ever(words):
    """Whether sbatch would say so again."""
    return any(text in words.lower() for text in REFUSALS)


def refused_here(words):
    """Whether another node might submit it."""
    return any(text in words.lower() for text in OF_THE_NODE)
