"""What the body of each request may have. The keeper's main thread, which must not fail, gets nothing else."""

import re

from rayctl_keeper.http.server import Rejected
from rayctl_keeper.state.document import LONGEST

MANY = 1000000  # nodes
LONG, LIST = 64 << 10, 10000  # characters of a text, texts of a list
LONGEST_CAUSE = 64  # characters
PACKAGE_NAME = re.compile(r"package-[A-Za-z0-9._+!-]{1,200}\.(zip|whl|jar)")
PACKAGE_URI = re.compile(r"gcs://[A-Za-z0-9._+!-]{1,250}")
SECONDS = {"end": ("grace",), "extend": ("max", "maxBy", "idle"), "disconnect": ("after",), "renew": (), "leaving": ("seconds",), "ended": ()}
WANTED = {"disconnect": "after", "leaving": "seconds", "ended": "message"}


def commit(body):
    """Refuses a commit that could not be carried out."""
    packages, env = body.get("packages") or [], body.get("runtimeEnv") or {}
    if not isinstance(packages, list) or not all(isinstance(p, dict) and matches(PACKAGE_NAME, p.get("file")) and matches(PACKAGE_URI, p.get("uri")) for p in packages):
        raise Rejected(400, "commit needs packages, each with uri (gcs://NAME) and file (package-HASH.zip)")
    if not isinstance(env, dict) or not isinstance(env.get("env_vars") or {}, dict):
        raise Rejected(400, "commit needs a runtimeEnv that is an object, with env_vars that are one")
    return body


def simple(what, body):
    """Refuses what end, extend, disconnect, renew, leaving and ended cannot mean."""
    for name in SECONDS[what]:
        if body.get(name) is not None and not is_number(body[name]):
            raise Rejected(400, "%s is not a number of seconds from 0 to %.0e" % (name, LONGEST))
    if what in WANTED and body.get(WANTED[what]) is None:
        raise Rejected(400, "%s is missing" % WANTED[what])
    for name in ("by", "cause", "message"):
        if body.get(name) is not None and not is_text(body[name]):
            raise Rejected(400, "%s is no text, or longer than %d KiB" % (name, LONG >> 10))
    if len(body.get("cause") or "") > LONGEST_CAUSE:
        raise Rejected(400, "cause is longer than %d characters" % LONGEST_CAUSE)
    return body


def nodes(body):
    """Of Ray's autoscaler, and of the head of a cluster without one."""
    return {"launch": launch(body["launch"]) if body.get("launch") else None, "release": names(body.get("release") or []),
            "unmet": None if body.get("unmet") is None else names(body["unmet"]), "held": counts(body.get("held"))}


def launch(wish):
    """Refuses a request for nodes that is none."""
    if not isinstance(wish, dict) or not is_text(wish.get("type")) or not is_count(wish.get("count")) or not is_text(wish.get("request")):
        raise Rejected(400, "launch needs type, count (0 to %d) and request" % MANY)
    return {name: wish[name] for name in ("type", "count", "request")}


def names(wish):
    """Refuses what is no list of words."""
    if not isinstance(wish, list) or len(wish) > LIST or not all(is_text(name) for name in wish):
        raise Rejected(400, "release and unmet need lists of text")
    return wish


def counts(wish):
    """Refuses what are no numbers of nodes by type; None: nothing is said of them."""
    if wish is not None and (not isinstance(wish, dict) or not all(is_count(number) for number in wish.values())):
        raise Rejected(400, "held needs a number of nodes (0 to %d) for each type" % MANY)
    return wish


def scale(body):
    """The sizes of groups that a user asks for."""
    sizes = body.get("sizes", [body])  # one group's without a list: of a client before there were several
    if not isinstance(sizes, list) or not 0 < len(sizes) <= LIST:
        raise Rejected(400, "scale needs sizes")
    return {"sizes": [size(one) for one in sizes]}


def size(wish):
    """Refuses a size of a group that is none."""
    if not isinstance(wish, dict) or not is_text(wish.get("group")) or not is_count(wish.get("min")) or not (wish.get("max") is None or is_count(wish["max"])):
        raise Rejected(400, "scale needs sizes, each with group, min, and max or none; min and max are 0 to %d" % MANY)
    return {name: wish.get(name) for name in ("group", "min", "max")}


def change(body):
    """A changed cluster file."""
    wish = {"groups": {}, "scaling": {}}
    wish.update((name, value) for name, value in body.items() if value is not None and name != "refusal")
    sizes = wish["groups"].values() if isinstance(wish["groups"], dict) else [None]
    if not is_text(wish.get("specHash")) or not amounts(wish.get("lifetime")) or not amounts(wish["scaling"]) \
            or not all(isinstance(s, list) and len(s) == 3 and all(is_count(n) for n in s) for s in sizes):
        raise Rejected(400, "change needs specHash, lifetime, groups and scaling; numbers of nodes are 0 to %d, others 0 to %.0e" % (MANY, LONGEST))
    return wish


def offers(body):
    """What a client has submitted in the keeper's stead."""
    if not all(is_text(body.get(name) or "") for name in ("id", "job", "error")) or not re.fullmatch("[0-9]{0,18}", body.get("job") or ""):
        raise Rejected(400, "offers needs id, job (a number), error (text) and take")
    return dict({name: body.get(name) for name in ("id", "job", "error", "take")}, offer=None)


def gpus(body):
    """What a pod has measured."""
    texts, numbers = ("node", "begun", "message"), ("count", "seconds", "busySeconds", "idle")
    if not all(is_text(body.get(n)) for n in texts) or not all(is_number(body.get(n)) for n in numbers):
        raise Rejected(400, "gpus needs %s; numbers are 0 to %.0e" % (", ".join(texts + numbers), LONGEST))
    return body


def granted(body):
    """Since when a pod has its node."""
    if body.get("part") not in ("head", "gang", "worker") or not is_number(body.get("at")):
        raise Rejected(400, "granted needs part (head, gang or worker) and at")
    if body["part"] == "worker" and not all(is_text(body.get(name)) for name in ("group", "pod")):
        raise Rejected(400, "granted needs the group and the pod of a worker")
    return body


def is_number(value):
    """Whether it is one that the keeper can reckon with."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LONGEST


def is_count(value):
    """Whether it is a number of nodes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MANY


def is_text(value):
    """Whether it is a text of a length that a document can have many of."""
    return isinstance(value, str) and len(value) <= LONG


def matches(pattern, value):
    """Whether it is a text of this form."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def amounts(value):
    """Whether it is an object of numbers."""
    return isinstance(value, dict) and all(n is None or is_number(n) for n in value.values())
