"""The words of a run's model. Made from launcher/runstate by "make docs"."""


class Phase:
    """Phases of a cluster."""
    QUEUED = "Queued"
    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    READY = "Ready"
    DRAINING = "Draining"
    GONE = "Gone"
    LOST = "Lost"
    SUSPENDED = "Suspended"


class Cause:
    """Causes of the end of a cluster, or of an attempt."""
    SUCCEEDED = "succeeded"
    DRIVER_FAILED = "driver-failed"
    DRIVER_SIGNALED = "driver-signaled"
    INTERRUPTED = "interrupted"
    DOWN = "down"
    DISCONNECTED = "disconnected"
    ABANDONED = "abandoned"
    IDLE = "idle"
    IDLE_GPU = "idle-gpu"
    MAX = "max"
    TOTAL = "total"
    TIME_LIMIT = "time-limit"
    QUEUE = "queue"
    START_FAILED = "start-failed"
    PACKAGE_FAILED = "package-failed"
    SUBMIT_FAILED = "submit-failed"
    LOST = "lost"
    PREEMPTED = "preempted"
    PREPARE_FAILED = "prepare-failed"


class Origin:
    """Whose exit code the exit has."""
    DRIVER = "driver"
    PREPARE = "prepare"
    RAYCTL = "rayctl"


class JobState:
    """States of the driver and of job.prepare: Ray's own, and those before the submission."""
    WAITING = "WAITING"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    NOT_SUBMITTED = "NOT_SUBMITTED"


class NodeState:
    """States of a node: Ray's ALIVE and DEAD, and rayctl's own."""
    STARTING = "STARTING"
    ALIVE = "ALIVE"
    DEAD = "DEAD"
    ENDED = "ENDED"


class AllocationState:
    """States of an allocation."""
    QUEUED = "queued"
    GRANTED = "granted"
    RELEASED = "released"


class Purpose:
    """Purposes of an allocation."""
    MAIN = "main"
    HEAD = "head"
    GANG = "gang"
    ELASTIC = "elastic"


class Event:
    """Kinds of events that the client uses."""
    PHASE = "phase"
    JOB = "job"
    PREPARE = "prepare"
    NODE = "node"
    FILES = "files"
    ENVIRONMENT = "environment"


class Reason:
    """Codes of reasons that the client uses."""
    GPUS_DO_NOTHING = "GpusIdle"
    UNMET = "Unmet"
    HEAD_RESETS = "HeadResets"
    SUBMITTED = "Submitted"


# Exit codes of "rayctl run" by the cause of the end, where the code is not a program's own.
CODES = {
    Cause.INTERRUPTED: 130,
    Cause.DOWN: 130,
    Cause.DISCONNECTED: 130,
    Cause.ABANDONED: 130,
    Cause.IDLE: 0,
    Cause.IDLE_GPU: 79,
    Cause.MAX: 124,
    Cause.TOTAL: 124,
    Cause.TIME_LIMIT: 124,
    Cause.QUEUE: 75,
    Cause.START_FAILED: 73,
    Cause.PACKAGE_FAILED: 73,
    Cause.SUBMIT_FAILED: 73,
    Cause.LOST: 76,
    Cause.PREEMPTED: 76,
}
UNKNOWN_CAUSE = 70
# Causes after which the same command may succeed if it is repeated.
RETRYABLE = (Cause.DISCONNECTED, Cause.ABANDONED, Cause.QUEUE, Cause.START_FAILED, Cause.LOST, Cause.PREEMPTED)
# The keys of job.restarts, each by the cause of the ends that it allows an attempt after.
RESTARTS = {
    Cause.DRIVER_FAILED: "driver",
    Cause.TIME_LIMIT: "timeLimit",
    Cause.LOST: "nodeFailure",
    Cause.PREEMPTED: "preempted",
}
# How a keeper's sentence begins when a signal ended it.
SIGNALLED = "the keeper received SIG"
# How the message of a node's event begins that was lost and started again before Ray had seen its loss.
STARTED_AGAIN = "it was started again"
