"""One call of the binary."""

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from rayctl.errors import KINDS, ConfigError, RayctlError


class Answer(NamedTuple):
    """code: the exit code. out: stdout. error: what rayctl says of its failure, or None where the code is a driver's own."""

    code: int
    out: bytes
    error: Optional[RayctlError]


def binary() -> str:
    """Returns the path of rayctl: RAYCTL_BINARY, else the one installed with this package, else the one in PATH. Raises ConfigError if there is none."""
    named = os.environ.get("RAYCTL_BINARY")
    if named:
        return named
    beside = [os.path.join(sysconfig.get_path("scripts"), "rayctl")]
    user = os.name + "_user"
    if user in sysconfig.get_scheme_names():  # pip install --user
        beside.append(os.path.join(sysconfig.get_path("scripts", user), "rayctl"))
    for path in beside:
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("rayctl")
    if not found:
        raise ConfigError(78, "there is no program rayctl beside this Python or in PATH", "install the wheel of your system, or set RAYCTL_BINARY")
    return found


def call(args: Sequence[str], env: Optional[Mapping[str, str]] = None, show: bool = False) -> Answer:
    """Runs rayctl to its end. env: further variables. show: stdout and stderr are this process's, and Answer.out is empty.

    At KeyboardInterrupt rayctl gets the signal, and ends what it does as on a terminal; then KeyboardInterrupt is raised.
    """
    with tempfile.TemporaryDirectory(prefix="rayctl-") as directory, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        said = os.path.join(directory, "error")
        child: Dict[str, str] = dict(os.environ)
        child.update(env or {})
        child["RAYCTL_ERROR_FILE"] = said
        words: List[str] = [binary()] + list(args)
        try:
            process = subprocess.Popen(words, env=child, stdin=subprocess.DEVNULL, stdout=None if show else out, stderr=None if show else log)
        except OSError as e:
            raise ConfigError(78, "rayctl cannot be run: %s" % e, "check RAYCTL_BINARY") from e
        interrupted = False
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:
                interrupted = True
                process.send_signal(signal.SIGINT)  # one that the terminal has sent too counts once
        if interrupted:
            raise KeyboardInterrupt
        out.seek(0)
        log.seek(0)
        code = 128 - code if code < 0 else code
        return Answer(code, out.read(), failure(code, said, log.read()))


def failure(code: int, said: str, log: bytes) -> Optional[RayctlError]:
    """Makes the error of a command. said: the file in which rayctl names it. log: its stderr."""
    kind = KINDS.get(code, RayctlError)
    if os.path.exists(said):
        with open(said, encoding="utf-8") as file:
            error = json.load(file)
        return kind(code, error["sentence"], error["nextStep"])
    last = log.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return kind(code, last[len("rayctl: "):]) if code and last.startswith("rayctl: ") else None


def document(args: Sequence[str], env: Optional[Mapping[str, str]] = None, rest: Sequence[str] = ()) -> Any:
    """Returns the document that a command answers with -o json. rest: what comes after the options. Raises the RayctlError of a command that failed."""
    answer = call(list(args) + ["-q", "-o", "json"] + list(rest), env)
    if answer.code:
        raise answer.error or RayctlError(answer.code, "rayctl ended with exit code %d" % answer.code)
    return json.loads(answer.out.decode("utf-8"))
