"""What the keeper knows of a run's end. Made from launcher/runstate by "make docs"."""

# Exit codes of "rayctl run" by the cause of the end, where the code is not a program's own.
CODES = {
    "interrupted": 130,
    "down": 130,
    "disconnected": 130,
    "abandoned": 130,
    "idle": 0,
    "idle-gpu": 79,
    "max": 124,
    "total": 124,
    "time-limit": 124,
    "queue": 75,
    "start-failed": 73,
    "package-failed": 73,
    "submit-failed": 73,
    "lost": 76,
    "preempted": 76,
}
UNKNOWN_CAUSE = 70
# Causes after which the same command may succeed if it is repeated.
RETRYABLE = ("disconnected", "abandoned", "queue", "start-failed", "lost", "preempted")
# How a keeper's sentence begins when a signal ended it.
SIGNALLED = "the keeper received SIG"
# How the message of a node's event begins that was lost and started again before Ray had seen its loss.
STARTED_AGAIN = "it was started again"
