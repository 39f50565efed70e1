"""pip for rayctl: `settings` prints pip's settings as JSON, `download DIR REQUIREMENT` fetches one wheel. Where the interpreter has no pip, the one that ensurepip has serves."""
import ast
import importlib.util
import json
import os
import subprocess
import sys


def pip():
    if importlib.util.find_spec("pip"):
        return ["-m", "pip"]
    import ensurepip
    folders = [os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"), getattr(ensurepip, "_WHEEL_PKG_DIR", None)]
    wheels = [os.path.join(f, n) for f in folders if f and os.path.isdir(f) for n in os.listdir(f) if n.startswith("pip-") and n.endswith(".whl")]
    return [os.path.join(wheels[0], "pip")]


command = [sys.executable, "-I"] + pip()
if sys.argv[1] == "download":
    sys.exit(subprocess.call(command + ["download", "-q", "--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "-d"] + sys.argv[2:], cwd="/"))
settings, listed = {}, subprocess.run(command + ["config", "list"], cwd="/", stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
for section in ("global", "install", ":env:"):  # a later one wins
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        if key.rpartition(".")[0] == section:
            settings[key.rpartition(".")[2]] = str(ast.literal_eval(value))
print(json.dumps(settings))
