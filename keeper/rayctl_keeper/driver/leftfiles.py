"""What a job wrote into Ray's copies of its working directory, which are removed with the nodes."""

import glob
import os
import zipfile

from rayctl_keeper.node.files import nodedir
from rayctl_keeper.state.model import Event

MOST = 10000  # entries are looked at: this is a hint, and the cluster waits for it
SHOWN, LONGEST = 3, 80  # names, and characters of a name
PYTHONS = ("__pycache__", ".pyc")  # Python itself writes these


def note(state, run_dir, commit, directories):
    """Notes in the timeline which files are there beside those of the package. It knows of the nodes on this host, and of packages that the client made."""
    uri = ((commit or {}).get("runtimeEnv") or {}).get("working_dir") or ""
    package = next((p["file"] for p in (commit or {}).get("packages") or [] if p["uri"] == uri), "")
    if not package or not directories:
        return
    with zipfile.ZipFile(os.path.join(run_dir, os.path.basename(package))) as archive:
        packed = {name.rstrip("/") for name in archive.namelist()}
    copy = os.path.join("session_2*", "runtime_resources", "working_dir_files", os.path.splitext(uri.rpartition("/")[2])[0])
    names, budget = set(), MOST
    for directory in directories:
        for path in glob.glob(os.path.join(glob.escape(nodedir.rays(directory)), copy)):
            budget = _written(path, packed, names, budget)
    if names:
        state.note(Event.FILES, "Removed", "", sentence(names, budget > 0))


def _written(copy, packed, names, budget):
    """Adds the files of a copy that were not packed; returns how many more entries may be looked at."""
    for parent, directories, files in os.walk(copy):
        directories[:] = [name for name in directories if name not in PYTHONS]
        for name in files:
            budget -= 1
            if budget <= 0:
                return 0
            path = os.path.relpath(os.path.join(parent, name), copy)
            if path not in packed and not name.endswith(PYTHONS):
                names.add(path)
    return budget


def sentence(names, all_seen):
    """The sentence about the files, those nearest to the directory itself first."""
    first = sorted(names, key=lambda name: (name.count("/"), name))[:SHOWN]
    shown = ", ".join(_printable(name) for name in first) + (", ..." if len(names) > SHOWN else "")
    files = ("%d file%s" if all_seen else "more than %d file%s") % (len(names), "" if len(names) == 1 and all_seen else "s")
    return "the job wrote %s into Ray's copy of its working directory, which is removed with the cluster: %s; results belong in $RAYCTL_OUTPUT_DIR" % (files, shown)


def _printable(name):
    text = os.fsencode(name).decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= LONGEST else text[:LONGEST - 3] + "..."
