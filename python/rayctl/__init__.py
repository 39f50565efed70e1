"""Ray clusters on this machine, on Slurm and on Kubernetes: the commands of rayctl as functions.

Each function calls the program rayctl and returns its answer. Options are given as on the command line: options=["--workers", "2"]; variables of the job
go by env, never into the command line. All raise RayctlError, or its class for the exit code.
"""

import contextlib
import json
import os
import sys
import tempfile
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union, cast

from rayctl.answers import Receipt, Status, Submitted
from rayctl.call import binary, call, document
from rayctl.errors import (ConfigError, LimitError, LostError, PermissionDenied, RayctlError, RunFailed, SpecError, StartError, UnreachableError,
                           UsageError)

__all__ = [
    "ConfigError", "LimitError", "LostError", "PermissionDenied", "RayctlError", "Receipt", "Result", "RunFailed", "SpecError", "StartError", "Status",
    "Submitted", "UnreachableError", "UsageError", "binary", "cluster", "down", "env", "logs", "run", "status", "submit", "up", "wait",
]

# What `rayctl env` sets for Ray, without the directory of its programs.
_FOR_RAY = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")


class Result(NamedTuple):
    """A run that has ended. code: the driver's exit code. output: its output, byte for byte. receipt: times in seconds, costs, cause."""

    code: int
    output: bytes
    receipt: Receipt


def _job(env: Optional[Mapping[str, str]]) -> List[str]:
    """The options for variables of a job: rayctl reads the values from its own environment, where other users do not see them."""
    return [word for name in env or {} for word in ("--env", name)]


def run(command: Sequence[str] = (), *, options: Sequence[str] = (), env: Optional[Mapping[str, str]] = None, check: bool = True, show: bool = False) -> Result:
    """Runs one job on a cluster of its own, from launch to release: `rayctl run`.

    command: the driver; without it, job.entrypoint of the cluster file. env: variables of the job. show: the output and the progress go to this process's
    stdout and stderr, and Result.output is empty. Raises RunFailed if the driver failed and check is true, and the error of the exit code for a run that
    ended otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="rayctl-") as directory:
        path = os.path.join(directory, "receipt.json")
        words = ["run", "--receipt", path] + ([] if show else ["-q"]) + _job(env) + list(options) + (["--"] + list(command) if command else [])
        answer = call(words, env, show)
        if not os.path.exists(path):
            raise answer.error or RayctlError(answer.code, "the run has no receipt")
        with open(path, encoding="utf-8") as file:
            receipt = cast(Receipt, json.load(file))
    own = receipt["exit"]["origin"] != "rayctl"
    if answer.code and (check or not own):
        if answer.error and not own:
            raise answer.error
        raise RunFailed(answer.code, receipt["exit"]["message"] or "the run ended: " + receipt["exit"]["cause"], receipt=receipt, output=answer.out)
    return Result(answer.code, answer.out, receipt)


def up(name: Optional[str] = None, *, options: Sequence[str] = (), env: Optional[Mapping[str, str]] = None) -> Status:
    """Starts a cluster that stays, or finds the same one, and returns when every node is there: `rayctl up`."""
    return cast(Status, document(["up"] + ([name] if name else []) + _job(env) + list(options), env))


def submit(command: Sequence[str], *, cluster: Optional[str] = None, options: Sequence[str] = (), env: Optional[Mapping[str, str]] = None) -> Submitted:
    """Submits a job to a cluster and returns when it is accepted; wait and logs take its submissionId: `rayctl submit -d`."""
    name = ["--cluster", cluster] if cluster else []
    return cast(Submitted, document(["submit", "-d"] + name + _job(env) + list(options), env, ["--"] + list(command)))


def wait(name: str, job: Optional[str] = None, *, check: bool = True) -> Union[Receipt, Submitted]:
    """Waits for the end of a run, and returns its receipt, or of a job of a cluster, and returns the job: `rayctl wait`.

    Raises RunFailed if it ended with another exit code than 0 and check is true.
    """
    answer = call(["wait", "-q", "-o", "json", name] + ([job] if job else []))
    if not answer.out:
        raise answer.error or RayctlError(answer.code, "rayctl ended with exit code %d" % answer.code)
    ended = json.loads(answer.out.decode("utf-8"))
    if answer.code and check:
        raise RunFailed(answer.code, "%s ended with exit code %d" % (job or name, answer.code), "`rayctl logs` shows its output", None if job else cast(Receipt, ended))
    return cast(Submitted, ended) if job else cast(Receipt, ended)


def logs(name: str, job: Optional[str] = None, *, options: Sequence[str] = ()) -> bytes:
    """Returns the output of a run's driver, or of a job of a cluster, also after the end, byte for byte: `rayctl logs`."""
    answer = call(["logs", "-q", name] + ([job] if job else []) + list(options))
    if answer.code and answer.error:
        raise answer.error
    return answer.out


def status(name: Optional[str] = None) -> Status:
    """Returns the state of a cluster, also after its end: `rayctl status`. Raises SpecError if there is none of that name."""
    return cast(Status, document(["status"] + ([name] if name else [])))


def down(*names: str, now: bool = False) -> None:
    """Ends clusters, and returns when nothing of them is allocated: `rayctl down`. now: drivers do not get their grace (job.grace)."""
    answer = call(["down", "-q"] + (["--now"] if now else []) + list(names))
    if answer.code:
        raise answer.error or RayctlError(answer.code, "rayctl down ended with exit code %d" % answer.code)


def env(name: str) -> Dict[str, str]:
    """Returns the variables with which Ray connects to a cluster: `rayctl env`. They name a file with the token, and do not contain it."""
    return cast(Dict[str, str], document(["env", name]))


@contextlib.contextmanager
def cluster(name: Optional[str] = None, *, options: Sequence[str] = (), keep: bool = False) -> Iterator[Status]:
    """Starts a cluster, or finds the same one, and ends it at the end of the block, unless keep is true. Inside, ray.init() connects to it.

    Raises ConfigError if Ray is imported already: it reads its variables only then.
    """
    if "ray" in sys.modules:
        raise ConfigError(78, "Ray is imported already, and reads the cluster's address only then", "import ray inside `with rayctl.cluster()`")
    started = up(name, options=options)
    before = {key: os.environ.get(key) for key in _FOR_RAY}
    try:
        found = env(started["name"])
        for key in _FOR_RAY:
            os.environ.pop(key, None)
            if key in found:
                os.environ[key] = found[key]
        yield started
    finally:
        for key, value in before.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
        if not keep:
            down(started["name"], now=True)
