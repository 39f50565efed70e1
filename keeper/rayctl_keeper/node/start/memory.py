"""How much memory a Ray node of a Slurm job has if the cluster file does not give it. Ray itself goes by the machine: it looks only at the root of the cgroups
(ray/_private/utils.py, get_system_memory), and its object store would be killed for memory that the job was not given."""

import os

ROOT = "/"
STORE = 0.3  # of the memory is Ray's object store, as Ray has it by default
SHM = 0.95  # of /dev/shm may be the object store; beyond that Ray moves it to a disk
LEAST_STORE = 80 << 20  # Ray refuses less than 75 MiB (OBJECT_STORE_MINIMUM_MEMORY_BYTES)


def share(environ, root=ROOT):
    """Bytes for one node of the job: the least of what Slurm granted on this machine, the cgroups' limits and the machine, divided by the job's tasks here. 0: it is
    not known that the job has less than the machine."""
    machine = machine_memory(root)
    bounds = [bound for bound in [granted(environ)] + cgroup_limits(root) if bound and not (machine and bound >= machine)]
    if not bounds and tasks_here(environ) == 1:
        return 0
    return min(bounds or [machine]) // tasks_here(environ)


def split(total, shm=None):
    """(memory for tasks and actors, object store) of a node with so many bytes."""
    store = int(total * STORE)
    if shm is None:
        found = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
        shm = found.f_frsize * found.f_blocks if found else 0
    if shm:
        store = min(store, int(shm * SHM))
    store = max(store, LEAST_STORE)
    return max(total - store, 0), store


def granted(environ):
    """The memory of this machine that Slurm's variables give, in bytes; 0: they give none. In a heterogeneous job the variables are of its first part, everywhere."""
    if environ.get("SLURM_HET_SIZE"):
        return 0
    per_node, per_cpu = number(environ.get("SLURM_MEM_PER_NODE")), number(environ.get("SLURM_MEM_PER_CPU"))
    return (per_node or per_cpu * number(environ.get("SLURM_CPUS_ON_NODE"))) << 20


def number(text):
    """A number of Slurm's; 0 if it is none."""
    return int(text) if text and text.isdigit() else 0


def tasks_here(environ):
    """How many tasks of the step are on this machine: the job's memory is for all of them. SLURM_STEP_TASKS_PER_NODE is like "2(x3),1"."""
    at = number(environ.get("SLURM_NODEID"))
    for part in (environ.get("SLURM_STEP_TASKS_PER_NODE") or "").split(","):
        tasks, _, times = part.partition("(x")
        nodes = number(times.rstrip(")")) or 1
        if at < nodes:
            return max(1, number(tasks))
        at -= nodes
    return 1


def machine_memory(root):
    """Bytes of the machine; 0 if unknown."""
    for line in lines(root, "proc/meminfo"):
        if line.startswith("MemTotal:"):
            return number(line.split()[1]) << 10
    return 0


def cgroup_limits(root):
    """The limits of the cgroups that this process is in, up to the root (cgroups(7)): the job's, the step's and the task's."""
    found = []
    for line in lines(root, "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, name = "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        path = path.strip("/")
        while True:
            found += [number(text) for text in lines(root, os.path.join(base, path, name))]
            if not path:
                break
            path = os.path.dirname(path)
    return [limit for limit in found if limit]  # "max" is no number


def lines(root, path):
    """Of a file that may not be there."""
    try:
        with open(os.path.join(root, path)) as f:
            return f.read().splitlines()
    except OSError:
        return []
