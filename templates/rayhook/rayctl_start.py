"""`python rayctl_start.py start ...` is `python -m ray.scripts.scripts start ...` in less than half of the processor time.

Importing Ray's command line takes 1.2 s of a processor (Ray 2.60), 0.7 of them for three groups of commands that `ray start` has no use
for. Ray imports them last and goes on without those that cannot be imported.
"""

import sys

UNUSED = ("ray.util.state.state_cli", "ray.dashboard.modules.job.cli", "ray.serve.scripts")


def commands():
    """Ray's command line."""
    sys.modules.update(dict.fromkeys(UNUSED))  # None makes `import` raise ImportError
    try:
        from ray.scripts import scripts
    except ImportError:
        scripts = None  # a Ray that needs one of them
    finally:
        for name in UNUSED:
            sys.modules.pop(name, None)
    if scripts is None:
        from ray.scripts import scripts
    return scripts


if __name__ == "__main__":
    sys.argv[0] = "ray"  # what its messages call it
    commands().main()
