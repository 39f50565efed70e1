"""Writes a wheel with one of rayctl's static binaries and the package in python/: wheel.py BINARY GOOS_GOARCH VERSION EPOCH DIRECTORY.

pip puts the binary beside its Python, as `rayctl`. The same input gives the same bytes.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The tags of PEP 600, 656 and of macOS. A static binary needs no C library; the versions are the oldest that pip knows of for each system and Go supports.
PLATFORMS = {
    "linux_amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_2_x86_64",
    "linux_arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_2_aarch64",
    "darwin_amd64": "macosx_10_12_x86_64",
    "darwin_arm64": "macosx_11_0_arm64",
}


def pep440(version):
    """Maps goreleaser's 1.2.3 to itself, 1.2.3-rc.1 to 1.2.3rc1, and a snapshot of the time T and commit C, 1.2.3-snapshot.T.gC, to 1.2.3.devT+gC."""
    found = re.fullmatch(r"v?(\d+\.\d+\.\d+)(?:-snapshot\.(-?\d+)\.(g\w+)|-(a|b|rc)\.?(\d+)|-(alpha|beta)\.?(\d+))?", version)
    if not found:
        raise SystemExit("wheel.py: the version %r is neither a release nor a snapshot: see snapshot in .goreleaser.yaml" % version)
    base, moment, commit, short, number, word, of_word = found.groups()
    if moment:
        return "%s.dev%d+%s" % (base, max(0, int(moment)), commit)  # without a remote goreleaser knows no commit: the year 1, gnone
    if short or word:
        return base + (short or word[0]) + (number or of_word)
    return base


def contents(binary, platform, version):
    """Yields name, mode and bytes of each file of the wheel, RECORD left out."""
    def read(*path):
        with open(os.path.join(*path), "rb") as file:
            return file.read()

    info = "rayctl-%s.dist-info" % version
    package = os.path.join(ROOT, "python", "rayctl")
    for name in sorted(os.listdir(package)):
        if name.endswith(".py") or name == "py.typed":
            yield "rayctl/" + name, 0o644, read(package, name)
    yield "rayctl-%s.data/scripts/rayctl" % version, 0o755, read(binary)
    yield info + "/licenses/LICENSE", 0o644, read(ROOT, "LICENSE")
    metadata = (
        "Metadata-Version: 2.4\nName: rayctl\nVersion: %s\nSummary: Ray clusters from this machine, Slurm or Kubernetes with KubeRay\n"
        "Home-page: https://github.com/rayctl/rayctl\nLicense-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n\n" % version)
    yield info + "/METADATA", 0o644, metadata.encode() + read(ROOT, "docs", "python.md")
    tags = "".join("Tag: py3-none-%s\n" % tag for tag in platform.split("."))
    yield info + "/WHEEL", 0o644, ("Wheel-Version: 1.0\nGenerator: rayctl\nRoot-Is-Purelib: false\n" + tags).encode()


def write(binary, target, version, epoch, directory):
    """Writes the wheel and returns its path. epoch: seconds, the time of all its files."""
    version, platform = pep440(version), PLATFORMS[target]
    when = time.gmtime(max(int(epoch), 315532800))[:6]  # zip files begin in 1980
    path = os.path.join(directory, "rayctl-%s-py3-none-%s.whl" % (version, platform))
    record = ""
    with zipfile.ZipFile(path, "w") as wheel:
        def add(name, mode, data):
            entry = zipfile.ZipInfo(name, when)
            entry.create_system = 3  # Unix: the mode counts
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for name, mode, data in contents(binary, platform, version):
            add(name, mode, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
        name = "rayctl-%s.dist-info/RECORD" % version
        add(name, 0o644, (record + name + ",,\n").encode())
    return path


if __name__ == "__main__":
    if len(sys.argv) != 6:
        raise SystemExit(__doc__)
    print(write(*sys.argv[1:]))
