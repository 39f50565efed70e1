"""The program that rayctl puts beside a cluster, one zip file: `python3 keeper.pyz ROLE ARGUMENTS...`. See docs/keeper.md.

A site's Python may be of any version. This file is the only one that all of them must be able to parse: it rejects those that are too old."""

import importlib
import sys

if sys.version_info < (3, 8):
    sys.exit("%s is Python %d.%d, and rayctl needs 3.8 or later: set %s" % (
        (sys.executable,) + tuple(sys.version_info)[:2] + ("slurm.python" if sys.argv[1:2] == ["slurm-batch"] else "ray.python",)))

ROLES = {
    "keeper": "run.keeper",
    "node": "node.supervisor",
    "guard": "node.guard",
    "gpus": "node.gpus.gpus",
    "ray": "rayhook.start",
    "slurm-batch": "slurm.batch.batch",
    "slurm-start": "slurm.batch.start",
    "slurm-relay": "slurm.access.relay",
    "slurm-exec": "slurm.access.exec",
    "slurm-companion": "slurm.companions.companion",
    "slurm-network": "slurm.doctor.network",
    "slurm-look": "slurm.doctor.look",
    "slurm-reach": "slurm.doctor.reach",
    "pod": "kubernetes.pod",
    "pod-keeper": "kubernetes.keeper",
    "record": "kubernetes.record",
    "report": "kubernetes.report",
    "granted": "kubernetes.granted",
    "pod-gpus": "kubernetes.gpus",
    "interface": "kubernetes.interface",
    "share": "run.shared",
}


def main():
    """Runs the role's main; returns the exit code."""
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role not in ROLES:
        sys.exit("usage: python3 keeper.pyz ROLE ARGUMENTS...; the roles are " + ", ".join(ROLES))
    return importlib.import_module("rayctl_keeper." + ROLES[role]).main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
