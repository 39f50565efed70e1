"""Ray clusters on this machine, on Slurm and on Kubernetes: the commands of rayctl as functions.

Each function calls the program rayctl and returns its answer. Options are given as on the command line: options=["--workers", "2"]; variables of the job
go by env, never into the command line.

All functions raise RayctlError, or its class for the exit code: UsageError for a wrong option, SpecError for a wrong cluster file or where there is no such
cluster or job, UnreachableError where Slurm, Kubernetes or the dashboard does not answer, PermissionDenied, and ConfigError for this machine's own
configuration or where there is no program rayctl. Each function names what it raises besides these. Ctrl-C goes to rayctl first, then KeyboardInterrupt is
raised.

In answers times are strings in RFC 3339 (UTC), durations are numbers of seconds, sizes are bytes. rayctl.answers has all keys.
"""

import contextlib
import json
import os
import sys
import tempfile
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union, cast, overload

from rayctl.answers import Receipt, Status, Submitted
from rayctl.call import Answer, binary, call, document
from rayctl.errors import (KINDS, ConfigError, LimitError, LostError, PermissionDenied, RayctlError, RunFailed, SpecError, StartError, UnreachableError,
                           UsageError)

__all__ = [
    "ConfigError", "LimitError", "LostError", "PermissionDenied", "RayctlError", "Receipt", "Result", "RunFailed", "SpecError", "StartError", "Status",
    "Submitted", "UnreachableError", "UsageError", "binary", "cluster", "down", "env", "logs", "run", "status", "submit", "up", "wait",
]

# What `rayctl env` sets for Ray, without the directory of its programs.
_FOR_RAY = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")


class Result(NamedTuple):
    """A run that has ended.

    code: the driver's exit code, 0 to 255; 128 + N for signal N.
    output: the driver's output (stdout and stderr in one stream), byte for byte; b"" with show=True.
    receipt: the account of the run, a dict. receipt["durations"] are seconds, receipt["usage"] has node-seconds and GPU-seconds,
        receipt["exit"]["cause"] is one word, such as "succeeded" or "driver-failed".
    """

    code: int
    output: bytes
    receipt: Receipt


def _job(env: Optional[Mapping[str, str]]) -> List[str]:
    """The options for variables of a job: rayctl reads the values from its own environment, where other users do not see them."""
    return [word for name in env or {} for word in ("--env", name)]


def _words(what: str, words: Sequence[str]) -> List[str]:
    """Returns the words of a command line; a string, which would be taken for a list of letters, is refused."""
    if isinstance(words, str):
        raise UsageError(64, "%s is a list of words, not a string" % what, 'write ["python", "train.py"]' if what == "command" else 'write ["--workers", "2"]')
    return list(words)


def _failed(answer: Answer, receipt: Receipt, output: bytes = b"") -> Optional[RayctlError]:
    """Makes the error of a run that has ended: RunFailed where the driver or somebody ended it, else that of the exit code; None after success.

    answer.error, where there is one, is of rayctl's own work after the end, such as a report that could not be written.
    """
    if not answer.code:
        return None
    error = answer.error
    if not error:
        asked = receipt["exit"]["origin"] != "rayctl" or answer.code == 130
        kind = RunFailed if asked else KINDS.get(answer.code, RayctlError)
        sentence = receipt["exit"]["message"] or "the run ended: " + receipt["exit"]["cause"]
        error = kind(answer.code, sentence, "`rayctl logs %s` shows its output" % receipt["name"])
    error.receipt, error.output = receipt, output
    return error


def run(command: Sequence[str] = (), *, options: Sequence[str] = (), env: Optional[Mapping[str, str]] = None, check: bool = True, show: bool = False) -> Result:
    """Runs one job on a cluster of its own, from launch to release, and returns when nothing of it is allocated: `rayctl run`.

    command: the words of the driver; without them, job.entrypoint of the cluster file.
    options: flags of `rayctl run`, without --receipt, -o and -q, which this function gives itself.
    env: variables of the job.
    check: False returns the Result of a driver that failed, too.
    show: the output and the progress go to this process's stdout and stderr, and Result.output is b"".

    If check is true, raises RunFailed where the driver failed, or where somebody ended the run (130). Whatever check is, raises the error of the exit
    code where something else ended it: StartError (73, 75), LostError (76), LimitError (79, 124). All have code, receipt and output.
    """
    with tempfile.TemporaryDirectory(prefix="rayctl-") as directory:
        path = os.path.join(directory, "receipt.json")
        words = ["run", "--receipt", path] + ([] if show else ["-q"]) + _job(env) + _words("options", options) + (["--"] + _words("command", command) if command else [])
        answer = call(words, env, show)
        if not os.path.exists(path):
            raise answer.error or RayctlError(answer.code, "the run has no receipt")
        with open(path, encoding="utf-8") as file:
            receipt = cast(Receipt, json.load(file))
    failed = _failed(answer, receipt, answer.out)
    if failed and (check or not isinstance(failed, RunFailed)):
        raise failed
    return Result(answer.code, answer.out, receipt)


def up(name: Optional[str] = None, *, options: Sequence[str] = (), env: Optional[Mapping[str, str]] = None) -> Status:
    """Starts a cluster that stays, or finds the same one, and returns its state when every node is there: `rayctl up`.

    name: the cluster's name; without it, `name` of the cluster file, else the directory's. The cluster ends by down(), after one hour without work, or
        after 12 hours: lifetime.idle and lifetime.max.
    options: flags of `rayctl up`. env: variables of the nodes, and so of all jobs, in no record, as `rayctl up --secret`.

    Returns the dict of status(), with phase "Ready". Raises StartError if the cluster could not be started (73) or its nodes were not granted within
    lifetime.queue (75), SpecError if the name is taken by a cluster of another spec.
    """
    return cast(Status, document(["up"] + ([name] if name else []) + [word for key in env or {} for word in ("--secret", key)] + _words("options", options), env))


def submit(command: Sequence[str], *, cluster: Optional[str] = None, options: Sequence[str] = (), env: Optional[Mapping[str, str]] = None) -> Submitted:
    """Submits a job to a cluster and returns when Ray has accepted it, not when it ends: `rayctl submit -d`.

    command: the words of the driver.
    cluster: its name; without it, the one of the cluster file, else your only one.
    options: flags of `rayctl submit`. env: variables of the job.

    Returns Ray's record of the job, a dict: "submissionId" is what wait() and logs() take, "status" is PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED.
    Raises StartError if the job cannot be submitted.
    """
    name = ["--cluster", cluster] if cluster else []
    return cast(Submitted, document(["submit", "-d"] + name + _job(env) + _words("options", options), env, ["--"] + _words("command", command)))


@overload
def wait(name: str, job: None = None, *, check: bool = True) -> Receipt: ...


@overload
def wait(name: str, job: str, *, check: bool = True) -> Submitted: ...


def wait(name: str, job: Optional[str] = None, *, check: bool = True) -> Union[Receipt, Submitted]:
    """Waits, without a limit, for the end of a run or of a job of a cluster: `rayctl wait`.

    name: the run, or the cluster of the job.
    job: the job's submissionId.

    Returns the receipt of a run, with durations in seconds, or Ray's record of a job, whose "driver_exit_code" is the driver's exit code and negative for
    a signal. If check is true, raises RunFailed if it ended with another exit code than 0, and for a run also the other errors of run(), with its receipt
    and without its output. Raises LostError if the cluster of the job has ended before the job.
    """
    answer = call(["wait", "-q", "-o", "json", name] + ([job] if job else []))
    if not answer.out:
        raise answer.error or RayctlError(answer.code, "rayctl ended with exit code %d" % answer.code)
    ended = json.loads(answer.out.decode("utf-8"))
    if job:
        if answer.code and check:
            raise RunFailed(answer.code, "%s ended with exit code %d" % (job, answer.code), "`rayctl logs %s %s` shows its output" % (name, job))
        return cast(Submitted, ended)
    receipt = cast(Receipt, ended)
    failed = _failed(answer, receipt)
    if failed and check:
        raise failed
    return receipt


def logs(name: str, job: Optional[str] = None, *, options: Sequence[str] = ()) -> bytes:
    """Returns the output of a run's driver, or of a job of a cluster, byte for byte: `rayctl logs`.

    name: the run or the cluster. job: the job's submissionId; without it, the newest job of a cluster without a job of its own.
    options: flags of `rayctl logs`, such as ["--tail", "100"] (lines) or ["--attempt", "1"].

    Returns what was printed so far, or all of it after the end, for as long as it is kept (lifetime.keep, 7 days). With ["-f"] returns at the end,
    whatever the driver's exit code. Raises SpecError if there is no such run, job or output.
    """
    answer = call(["logs", "-q", name] + ([job] if job else []) + _words("options", options))
    if answer.code and answer.error:
        raise answer.error
    return answer.out


def status(name: Optional[str] = None) -> Status:
    """Returns the state of a cluster at this moment, also after its end: `rayctl status`.

    name: the cluster's or the run's; without it, the one of the cluster file, else your only one.

    Returns a dict: "phase" is Queued, Provisioning, Starting, Ready, Suspended, Draining (the end has begun), Gone (it has ended, and "exit" has the
    cause) or Lost; "reason" has the cause of a wait as code, message and hint; "nodes" and "groups" are lists of dicts. Raises SpecError (65) if there is
    no cluster and no record of that name.
    """
    return cast(Status, document(["status"] + ([name] if name else [])))


def down(*names: str, now: bool = False) -> None:
    """Ends clusters and runs, and returns when nothing of them is allocated: `rayctl down`.

    names: of the clusters; without any, the one of the cluster file, else your only one.
    now: drivers get SIGKILL at once, not SIGTERM and job.grace.

    A cluster that has ended already is no error. Raises SpecError (65) for a name that is unknown.
    """
    answer = call(["down", "-q"] + (["--now"] if now else []) + list(names))
    if answer.code:
        raise answer.error or RayctlError(answer.code, "rayctl down ended with exit code %d" % answer.code)


def env(name: str) -> Dict[str, str]:
    """Returns the variables with which Ray connects to a cluster, by name: `rayctl env`.

    They are for os.environ before `import ray`, or for a child process. They name a file with the cluster's token, and do not contain it. Where this
    machine does not reach the nodes, a tunnel is started that runs until the cluster ends. Raises SpecError (65) if there is no such cluster.
    """
    return cast(Dict[str, str], document(["env", name]))


@contextlib.contextmanager
def cluster(name: Optional[str] = None, *, options: Sequence[str] = (), keep: bool = False) -> Iterator[Status]:
    """Starts a cluster, or finds the same one, and ends it at the end of the block, unless keep is true. Inside, ray.init() connects to it.

    name, options: as for up(). The value of `as` is the dict of status(). At the end of the block ray.shutdown() is called, and os.environ is as before.

    Raises what up() and env() raise, and ConfigError (78) if Ray is imported already: it reads its variables only then.
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
