"""What stands between srun and a supervisor where the Ray nodes are in containers: the runtime, its arguments and what it binds.

The directories of the nodes that a container sees, at the same paths, are those that the orders name and that are there on this node, caches, and the
directory for Ray's temporary files: a container's own /tmp may be small, in memory, or gone at the end (enroot: conf/mounts/10-system.fstab)."""

import os
import re

from rayctl_keeper.node.files import scratch

# Variables that name directories of caches; what is there is kept from run to run, and for all nodes.
CACHES = ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR",
          "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT", "JAX_COMPILATION_CACHE_DIR", "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR", "UV_CACHE_DIR", "PIP_CACHE_DIR")
# Pyxis splits mounts at commas and colons, and enroot their parts at white space; Apptainer's --bind splits at commas and colons.
UNBINDABLE = re.compile(r"[,:\s\0]")


def command(orders, environ, log):
    """The runtime and its arguments, up to the command in the container; of Pyxis they are srun's. [] without a container."""
    container = orders["start"].get("container")
    if not container:
        return []
    binds = [bind_text(bind) for bind in container["binds"]]
    for path in visible(orders, environ):
        if UNBINDABLE.search(path):
            log("%r cannot be bound into the container" % path)
            continue
        binds.append("%s:%s" % (path, path))
    arguments = container.get("args") or []
    if container["runtime"] == "pyxis":
        root = [] if "--container-remap-root" in arguments else ["--no-container-remap-root"]
        return ["--container-image=" + container["image"], "--container-mounts=" + ",".join(binds)] + root + arguments
    bound = [argument for bind in binds for argument in ("--bind", bind)]
    return [container["runtime"], "exec"] + bound + arguments + [container["image"]]


def bind_text(bind):
    """As both kinds of runtime write it."""
    return ":".join([bind["source"], bind["target"]] + (["ro"] if bind.get("readOnly") else []))


def visible(orders, environ):
    """Directories of this node that the container is to see where they are, each once, without those below others."""
    container, places = orders["start"]["container"], []
    groups, job = orders.get("groups") or [], orders.get("job") or {}
    env = dict(environ)
    for more in [orders["ray"].get("env")] + [group.get("env") for group in groups] + [job.get("env")]:
        places += [value for name, value in (more or {}).items() if name in CACHES]
        env.update(more or {})
    places += [env[name] for name in CACHES if env.get(name)]
    if environ.get("HOME"):
        places.append(os.path.join(environ["HOME"], ".cache"))
    places += container.get("where") or []
    places = [os.path.normpath(path) for path in places if os.path.isabs(path) and os.path.isdir(path)]
    root = above(scratch.expanded(orders["ray"].get("tempRoot") or "/tmp", environ))
    # A mount's target is the file's own: nothing may be put over it, or stands twice.
    covered = {os.path.normpath(bind["target"]) for bind in container["binds"]}
    found = []
    for path in sorted(set(places + root) - covered):  # what is above comes first
        if path != "/" and not any(path.startswith(other + os.sep) for other in found):
            found.append(path)
    return found


def above(path):
    """The directory itself, or else the nearest above it that is there: the supervisors make it. [] where that is the root directory."""
    while path != "/" and not os.path.isdir(path):
        path = os.path.dirname(path)
    return [] if path == "/" else [path]
