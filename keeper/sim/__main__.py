"""python3 keeper/sim [--lives N] [--seed S] [--trace]: N lives from seed S on; with --trace one of them, told line by line."""

import argparse
import collections
import os
import shutil
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from sim import lives as kinds  # noqa: E402
from sim import patched  # noqa: E402
from sim.planted import PLANTED, planted  # noqa: E402
from sim.world import Violation  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", default="", choices=[""] + sorted(kinds.KINDS), help="only lives of this kind")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--shrink", action="store_true", help="the strikes without which the life of seed S is right are left out")
    parser.add_argument("--table", action="store_true", help="how often what struck in which phase, with which state of job.prepare and of the driver")
    parser.add_argument("--planted", default="", metavar="NAME", help="with this bug of planted.py in the keeper")
    parser.add_argument("--find", action="store_true", help="the first seed, from S on, whose life each planted bug spoils, among N; --planted: only bugs with this in their names")
    parser.add_argument("--check-planted", action="store_true", help="each bug is found by its seed, whose life is right without it")
    options = parser.parse_args()
    root = tempfile.mkdtemp(prefix="rayctl-sim-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    patched.apply()
    try:
        if options.check_planted:
            return check_planted(root)
        if options.find:
            return find(options, root)
        with planted(options.planted):
            return shrink(options.seed, root) if options.shrink else lives(options, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def lives(options, root):
    """All of them, and what they have shown."""
    failed, causes, events, faults, struck = [], collections.Counter(), [], [], collections.Counter()
    for seed in kinds.seeds(options.seed, options.lives, options.kind):
        life, error = one(seed, root)
        if error:
            failed.append(seed)
            print("seed %d: %s" % (seed, error))
        if options.trace:
            print("\n".join(life.world.trace))
        events.append(life.world.events)
        faults.append(len(life.world.faults))
        causes[life.cause] += 1
        struck.update(life.struck)
    if options.table:
        print("\n".join("%6d  %s" % (count, "  ".join(word or "-" for word in what)) for what, count in sorted(struck.items())))
    events.sort()
    faults.sort()
    print("%d lives from seed %d on: %d violations; events: median %d, faults: median %d; ends: %s" % (
        options.lives, options.seed, len(failed), events[len(events) // 2], faults[len(faults) // 2], ", ".join("%s %d" % item for item in sorted(causes.items()))))
    return 1 if failed else 0


def shrink(seed, root):
    """Leaves out one strike after the other as long as the life is wrong without it, and tells the rest."""
    life, error = one(seed, root)
    without = set()
    for number in range(len(life.strikes)):
        if error and one(seed, root, without | {number})[1]:
            without.add(number)
    life, error = one(seed, root, without)
    print("\n".join(life.world.trace))
    print("seed %d without strikes %s: %s" % (seed, sorted(without), error or "right"))
    return 1 if error else 0


def one(seed, root, without=()):
    """A life, and the promise that did not hold in it, "" for none. What the keeper, or a model, raises unexpectedly is one, too."""
    life = kinds.KINDS[kinds.kind_of(seed)](seed, root, without)
    try:
        life.run()
        return life, ""
    except Violation as violation:
        return life, str(violation)
    except Exception as error:
        return life, "".join(traceback.format_exception(type(error), error, error.__traceback__))


def find(options, root):
    """For each planted bug the first seed whose life it spoils."""
    left = [name for name in PLANTED if options.planted in name]
    for seed in kinds.seeds(options.seed, options.lives, options.kind):
        if one(seed, root)[1]:
            continue
        for name in list(left):
            with planted(name):
                _, error = one(seed, root)
            if error:
                left.remove(name)
                print('"%s": %d  # %s' % (name, seed, error.strip().splitlines()[-1]), flush=True)
        if not left:
            return 0
    print("not found: %s" % "; ".join(left))
    return 1


def check_planted(root):
    """Returns 1 where a bug is not found, or a life is wrong without it."""
    wrong, unknown = 0, [name for name, (_, seed) in PLANTED.items() if seed is None]
    for name, (_, seed) in PLANTED.items():
        if seed is None:
            continue
        with planted(name):
            _, error = one(seed, root)
        healthy = one(seed, root)[1]
        if not error or healthy:
            wrong += 1
            print("%s (seed %d): %s" % (name, seed, healthy or "not found"))
    print("%d planted bugs: %d not found by their seeds, %d without a seed: %s" % (len(PLANTED), wrong, len(unknown), "; ".join(unknown)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
