"""The errors that calls of rayctl raise."""

from typing import Dict, Optional, Type

from rayctl.answers import Receipt


class RayctlError(Exception):
    """A command of rayctl that failed.

    code: its exit code; docs/exit-codes.md has all of them.
    sentence: what is wrong and why, in one sentence, without the next step.
    next_step: what to do about it; "" where rayctl knows none.
    receipt: the account of the run that ended so, with durations in seconds; None where no run has ended.
    output: the driver's output, byte for byte, as far as it was captured; b"" where there is none.
    """

    receipt: Optional[Receipt] = None
    output: bytes = b""

    def __init__(self, code: int, sentence: str, next_step: str = "") -> None:
        super().__init__(sentence + ": " + next_step if next_step else sentence)
        self.code = code
        self.sentence = sentence
        self.next_step = next_step


class UsageError(RayctlError):
    """A wrong option (exit code 64)."""


class SpecError(RayctlError):
    """A wrong cluster file, no such cluster or job, or a name that another spec has (65)."""


class UnreachableError(RayctlError):
    """Slurm, Kubernetes or the dashboard does not answer, or its Ray cannot do this (69)."""


class StartError(RayctlError):
    """The cluster or the driver could not be started (73), or lifetime.queue passed (75)."""


class LostError(RayctlError):
    """The cluster was lost while the driver ran (76)."""


class PermissionDenied(RayctlError):
    """Not permitted (77); the sentence names what is missing."""


class ConfigError(RayctlError):
    """This machine's configuration is wrong, or it has no rayctl (78)."""


class LimitError(RayctlError):
    """lifetime.max or lifetime.total passed (124), or the GPUs did nothing for lifetime.idleGpu (79)."""


class RunFailed(RayctlError):
    """A run or a job that ended with another exit code than 0: the driver's own, or 130 where somebody ended it. receipt is None for a job of a cluster."""


KINDS: Dict[int, Type[RayctlError]] = {
    64: UsageError, 65: SpecError, 69: UnreachableError, 73: StartError, 75: StartError, 76: LostError, 77: PermissionDenied, 78: ConfigError, 79: LimitError,
    124: LimitError,
}
