"""All that is kept of submitted jobs in one file, for a record that has little room: a .tar.gz with the names that the files have in the run directory."""

import json
import os
import tarfile
import zlib

from rayctl_keeper.node.files.joblogs import DIRECTORY, GAP, SUFFIX, UNREAD, bounds_in_memory, created, ends

FILE, RECORDS = "jobs.tgz", "submissions.json"
ROOM = 6 << 20  # bytes, compressed: in base64 8 MiB, as much of a log as every kubelet keeps
LEAST = 64 << 10  # bytes to which a longer output may be cut
GZIP = 31  # zlib's number of the format


def write(run_dir, room=ROOM):
    """Writes the file: the records, of too many the newest, and the outputs, the newest first as long as there is room. Raises OSError."""
    with open(os.path.join(run_dir, "orders.json")) as f:
        one, _ = bounds_in_memory(json.load(f))
    with created(os.path.join(run_dir, FILE)) as out:
        pack = Pack(out, room)
        _add_records(pack, run_dir)
        for path in newest_first(os.path.join(run_dir, DIRECTORY)):
            if not _add_output(pack, path, one):
                break
        pack.close()


def newest_first(directory):
    """The outputs."""
    try:
        with os.scandir(directory) as files:
            found = [(f.stat().st_mtime_ns, f.path) for f in files if f.name.endswith(SUFFIX)]
    except FileNotFoundError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


def _add_records(pack, run_dir):
    try:
        with open(os.path.join(run_dir, RECORDS)) as f:
            records = json.load(f)  # the oldest first
    except FileNotFoundError:
        return
    while not pack.add(RECORDS, json.dumps(records).encode()):
        records = records[(len(records) + 1) // 2:]


def _add_output(pack, path, one):
    """Adds an output, or where there is too little room a shorter part of it. Returns whether there was room."""
    with open(path, "rb") as f:
        text = f.read()
    name, most = DIRECTORY + "/" + os.path.basename(path), len(text)
    while not pack.add(name, shortened(text, most, one)):
        most //= 2
        if most < LEAST:
            return False
    return True


def shortened(text, most, one):
    """The beginning and the end of an output. one: where it is longer, it was shortened to that before, and has the note."""
    if len(text) <= most:
        return text
    head, tail = ends(most)
    gap, note = len(text) - most, text[ends(one)[0]:].partition(b"\n")[2].partition(b"\n")[0]
    before, after = GAP.strip(b"\n").split(b"%d")
    if len(text) > one and note.startswith(before) and note.endswith(after) and note[len(before):-len(after)].isdigit():
        number = int(note[len(before):-len(after)])
        gap += number - len(GAP % number)
    return text[:head] + (UNREAD if UNREAD in text[head:-tail] else GAP % gap) + text[-tail:]


class Pack:
    """Writes a .tar.gz up to a size."""

    def __init__(self, out, room):
        self._out, self._compressor = out, zlib.compressobj(6, zlib.DEFLATED, GZIP)
        self._left = room - 1024  # for the end

    def add(self, name, content):
        """Adds a file, if there is room."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), 0o600
        compressor = self._compressor.copy()
        data = b"".join(compressor.compress(part) for part in (entry.tobuf(tarfile.PAX_FORMAT), content, bytes(-len(content) % tarfile.BLOCKSIZE)))
        data += compressor.flush(zlib.Z_SYNC_FLUSH)
        if len(data) > self._left:
            return False
        self._compressor, self._left = compressor, self._left - len(data)
        self._out.write(data)
        return True

    def close(self):
        self._out.write(self._compressor.compress(bytes(2 * tarfile.BLOCKSIZE)) + self._compressor.flush())
