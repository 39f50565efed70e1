"""Gives a job's command its output in a pipe, by pump.py. The command line that Ray has and shows is a comment with the user's command, because Ray's dashboard has
room for the beginning only, then LINE, then the command; all else is in two variables of the job's runtime environment. Where there is no Python, or the variables are missing, the rest of that command line runs as it is.
launcher/driverio/pipe.go makes the same."""

import pkgutil
import re

LINE = 'eval "$RAYCTL_PIPE"\n'
TITLE = re.compile("# [^\n]*\n(?=%s)" % re.escape(LINE))
LONGEST_TITLE = 200  # characters
LONGEST = 120 << 10  # bytes: Linux accepts 128 KiB in one variable
# Ray expands variables in values, and one of its plugins puts them between apostrophes (runtime_env/image_uri.py).
MEANT = {"%": "%25", "$": "%24", "'": "%27"}


def begins(command):
    """Whether a command's output is to go through the pipe: what Linux cannot pass on in a variable runs without."""
    return bool(command) and "\0" not in command and len(variables(command)["RAYCTL_COMMAND"].encode("utf-8", "surrogatepass")) <= LONGEST


def through(command, users=""):
    """The command line for Ray. users: the user's part of the command."""
    return title(users) + LINE + command if begins(command) else command


def title(users):
    """A comment of the shell with the first line of the user's command; nothing where that is empty."""
    first = (users.strip(" \t\r\n").split("\n") or [""])[0][:LONGEST_TITLE].rstrip(" \t\r\\")
    return "# %s\n" % first if first else ""


def variables(command):
    """What the runtime environment must have for it."""
    program = pkgutil.get_data("rayctl_keeper.driver", "pump.py").decode().replace('"', '\\"')
    return {"RAYCTL_PIPE": 'command -v python3 >/dev/null 2>&1 && exec python3 -ISc "%s"' % program,
            "RAYCTL_COMMAND": literal(command)}


def literal(text):
    """A text as the value of a variable of a runtime environment, in which Ray changes nothing."""
    return "".join(MEANT.get(c, c) for c in text)


def without(line):
    """The command of a command line."""
    line = TITLE.sub("", line, count=1) if TITLE.match(line) else line
    return line[len(LINE):] if line.startswith(LINE) else line
