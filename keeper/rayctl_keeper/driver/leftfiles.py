"""What a job wrote into Ray's copies of its working directory, which are removed with the nodes. It is kept in the output directory, as far as this host has both."""

import glob
import os
import shutil
import stat
import zipfile

from rayctl_keeper.node.files import nodedir
from rayctl_keeper.state.model import Event

MOST = 10000  # entries are looked at: this is a hint, and the cluster waits for it
MOST_KEPT, MOST_BYTES = 1000, 1 << 30  # of the files that are kept
KEPT = "working-dir"  # in the output directory
SHOWN, LONGEST = 3, 80  # names, and characters of a name
PYTHONS = ("__pycache__", ".pyc")  # Python itself writes these


def keep(state, run_dir, commit, directories, output):
    """Copies the files that are there beside those of the package to KEPT in output, a directory of this host or "", and notes in the timeline which they are. It
    knows of the nodes on this host, and of packages that the client made."""
    uri = ((commit or {}).get("runtimeEnv") or {}).get("working_dir") or ""
    package = next((p["file"] for p in (commit or {}).get("packages") or [] if p["uri"] == uri), "")
    if not package or not directories:
        return
    with zipfile.ZipFile(os.path.join(run_dir, os.path.basename(package))) as archive:
        packed = {name.rstrip("/") for name in archive.namelist()}
    copy = os.path.join("session_2*", "runtime_resources", "working_dir_files", os.path.splitext(uri.rpartition("/")[2])[0])
    found, budget = {}, MOST
    for directory in directories:
        for path in sorted(glob.glob(os.path.join(glob.escape(nodedir.rays(directory)), copy)), reverse=True):  # of several sessions the newest counts
            budget = _written(path, packed, found, budget)
    if found:
        target = os.path.join(output, KEPT) if os.path.isabs(output) else ""
        kept = _copy(found, target) if target else 0
        state.note(Event.FILES, "Kept" if kept == len(found) else "Removed", "", sentence(found, budget > 0, kept, target))


def _copy(found, target):
    """Copies files to a directory, without following links and without replacing anything, and returns how many it has then."""
    kept, room = 0, MOST_BYTES
    for name in sorted(found, key=_nearest)[:MOST_KEPT]:
        try:
            size = _copy_file(os.path.join(found[name], name), os.path.join(target, name), target, room)
        except OSError:
            continue  # the sentence says how many are kept
        kept, room = kept + 1, room - size
    return kept


def _copy_file(source, path, target, room):
    """Copies one file of at most room bytes as a whole, and returns its size."""
    with open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > room:
            raise OSError("it is no file, or too large")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path) or not (os.path.realpath(os.path.dirname(path)) + "/").startswith(os.path.realpath(target) + "/"):
            raise OSError("something else is there")
        part = path + ".part-%d" % os.getpid()
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, stat.S_IMODE(found.st_mode) & 0o777 | 0o600), "wb") as out:
            try:
                shutil.copyfileobj(file, out)
                out.flush()
                os.rename(part, path)
            except OSError:
                os.unlink(part)
                raise
    return found.st_size


def _written(copy, packed, found, budget):
    """Adds to found, which has the copy of each name, the files of a copy that were not packed; returns how many more entries may be looked at."""
    for parent, directories, files in os.walk(copy):
        directories[:] = [name for name in directories if name not in PYTHONS]
        for name in files:
            budget -= 1
            if budget <= 0:
                return 0
            path = os.path.relpath(os.path.join(parent, name), copy)
            if path not in packed and not name.endswith(PYTHONS):
                found.setdefault(path, copy)
    return budget


def _nearest(name):
    """The order of names: those nearest to the directory itself first."""
    return name.count("/"), name


def sentence(names, all_seen, kept, target):
    """The sentence about the files, of which the first so many are in target."""
    first = sorted(names, key=_nearest)[:SHOWN]
    shown = ", ".join(_printable(name) for name in first) + (", ..." if len(names) > SHOWN else "")
    files = ("%d file%s" if all_seen else "more than %d file%s") % (len(names), "" if len(names) == 1 and all_seen else "s")
    wrote = "the job wrote %s into Ray's copy of its working directory, which is removed with the cluster: %s" % (files, shown)
    if not kept:
        return wrote + "; results belong in $RAYCTL_OUTPUT_DIR"
    which = "%d of them are" % kept if kept < len(names) or not all_seen else "it is" if kept == 1 else "they are"
    return wrote + "; %s kept in %s/ of $RAYCTL_OUTPUT_DIR (%s)" % (which, KEPT, _printable(target, 4 * LONGEST))


def _printable(name, longest=LONGEST):
    text = os.fsencode(name).decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= longest else text[:longest - 3] + "..."
