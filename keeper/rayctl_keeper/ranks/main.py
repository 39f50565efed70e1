"""The driver of a job that runs on every node: reserves the nodes through Ray, starts the user's command there as ranks, and prints their output.
The variable RAYCTL_RANKS_JOB has what it needs (launcher/driverio/ranks.go): the program itself, guard.py, the command, and the groups of nodes.

One actor a node holds all CPUs and GPUs of the node and starts its ranks. Each rank's output comes as records, of which each is one line:
  "[rank 3] TEXT"   the rest of a line of rank 3
  "[rank 3]+TEXT"   a part of a line, that goes on in the rank's next record: the end of this line is not the rank's
All other lines are not of ranks. cmd/app/ranks has the reader."""
import asyncio
import base64
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zlib

PIECE = 64 << 10  # bytes of one answer of an actor: Ray keeps up to 100 KiB in the answer itself
LATE = 0.1  # seconds after which a part of a line is shown, such as a progress bar or a question
WAITS = 10.0  # seconds after which the output says that nodes are not there, or not free
MISSES = 60.0  # seconds after which a node that is not there is a lost one: the keeper then waits for it, with the limits of the cluster file
SOON = 5.0  # seconds within which Ray tells why it has ended a process
LOOK = 1.0  # between looks whether nodes are being taken away
# This exit code, and a last line that ends so, tell the keeper that it was not the job that failed (keeper/rayctl_keeper/driver/rankend.py).
# The code is CodeLost of launcher/runstate/causes.go, written out here because this program is sent alone, without the keeper's other modules.
NODE_GONE, LOST, TAKEN = 76, "the node was lost", "the node is being taken away"
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR", "HABANA_VISIBLE_MODULES")
OURS = ("RAYCTL_PIPE", "RAYCTL_COMMAND", "RAYCTL_RANKS", "RAYCTL_RANKS_JOB")
SIGNALS = {int(number) for number in signal.Signals}  # a shell exits with 128 and the signal that has ended its command


class Refused(Exception):
    """Why the ranks cannot start."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def write(data):
    while data:
        data = data[os.write(1, data):]


def say(text):
    write(("\n".join(text.splitlines()) + "\n").encode("utf-8", "replace"))


# Which nodes, and what each of them gets. Pure.

def is_head(row):
    return "node:__internal_head__" in row["Resources"]


def group_of(row, groups):
    """The group of a node of Ray. KubeRay labels nodes from Ray 2.49 on; before that only head and workers can be told apart."""
    labels, names = row.get("Labels") or {}, [group["name"] for group in groups]
    own = labels.get("rayctl.io/group") or ordinal(row)[0]
    label = own if own in names else labels.get("ray.io/node-group") or ""
    if label in names:
        return label
    workers = [group["name"] for group in groups if not group["head"]]
    return next((g["name"] for g in groups if g["head"]), "") if is_head(row) else workers[0] if workers else ""


def ordinal(row):
    """Group and number in the name that rayctl gives a node."""
    found = re.match(r"(.+)-(\d+)$", row.get("NodeName") or "")
    return (found[1], int(found[2])) if found else ("", -1)


def required(rows, groups):
    """The nodes that run ranks, in the order of ranks: of each group those of the gang. None while one is missing, or a ghost is there. Nodes that rayctl starts are told
    apart by their names: elastic ones have higher numbers. Elsewhere the nodes of a group are equal."""
    rows, found = [row for row in rows if row["Alive"]], []
    for group in groups:
        if not group["runs"]:
            continue
        mine = [row for row in rows if group_of(row, groups) == group["name"]]
        named = [row for row in mine if ordinal(row)[0] == group["name"]]
        if named:
            mine = [row for row in named if ordinal(row)[1] < group["count"]]
        mine.sort(key=lambda row: (not is_head(row), ordinal(row)[1], row.get("NodeName") or "", row["NodeID"]))
        if len(mine) < group["count"] or has_ghost(mine):
            return None
        found += mine[:group["count"]]
    return found


def has_ghost(rows):
    """Whether Ray takes a node for alive in whose place another one has started, with the same name, such as a container that started again in its pod: what is put there fails,
    until Ray's health check has ended."""
    names = [row["NodeName"] for row in rows if row.get("NodeName")]
    return len(names) != len(set(names))


def called(rows):
    """What the nodes are called in messages: rayctl's name, or the pod's; with the host where they have several."""
    hosts = {row["NodeManagerHostname"] for row in rows}
    names = []
    for row in rows:
        host, name = row["NodeManagerHostname"], row.get("NodeName") or ""
        if name in ("", row["NodeManagerAddress"]):
            name = host
        names.append(name if name == host or len(hosts) < 2 and len(rows) > 1 else "%s (%s)" % (name, host))
    return names


def share(row, per_node, reserved):
    """What one node gives: the number of ranks, and the CPUs and GPUs that its actor holds. reserved: what the driver itself holds there, (CPUs, GPUs)."""
    cpus = max(0, int(row["Resources"].get("CPU", 0) - reserved[0]))
    gpus = max(0, int(row["Resources"].get("GPU", 0) - reserved[1]))
    name = row.get("NodeName") or row["NodeManagerHostname"]
    if per_node == "gpu":
        if not gpus:
            raise Refused("perNode is gpu, and the node %s has no GPU for ranks" % name)
        return gpus, cpus, gpus
    count = int(per_node)
    if gpus and gpus % count and count % gpus:
        raise Refused("the %d GPUs of the node %s cannot be divided equally among %d ranks" % (gpus, name, count))
    if cpus and count > cpus:
        raise Refused("the node %s has %d CPUs for %d ranks" % (name, cpus, count))
    return count, cpus, gpus


def devices(ids, local, count):
    """The part of the node's GPUs, as Ray gives them, that is for one of its ranks. Ray gives them in any order, if they were used before: the first rank has the first one."""
    parts = ids.split(",")
    if all(part.isdigit() for part in parts):
        parts.sort(key=int)
        ids = ",".join(parts)
    if not ids or len(parts) % count and count % len(parts):
        return ids
    first = local * len(parts) // count
    return ",".join(parts[first:max(first + 1, (local + 1) * len(parts) // count)])


def hostfile(addresses, counts):
    """The file of MPI's hosts."""
    slots = {}
    for address, count in zip(addresses, counts):
        slots[address] = slots.get(address, 0) + count
    return "".join("%s slots=%d\n" % item for item in slots.items())


def made(hosts):
    """The file, in the node's own directory where it has one: that is removed with the node."""
    fd, path = tempfile.mkstemp(prefix="rayctl-hosts-", dir=os.environ.get("RAYCTL_NODE_DIR") or None)
    with os.fdopen(fd, "w") as f:
        f.write(hosts)
    return path


def outcome(status, memory):
    """Exit code, and the words for it, by a wait status."""
    if not os.WIFSIGNALED(status):
        code = os.WEXITSTATUS(status)
        return code, "exited with %d%s" % (code, " (%s)" % signal.Signals(code - 128).name if code - 128 in SIGNALS else "")
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name if number in SIGNALS else "signal %d" % number
    return 128 + number, "was killed by %s%s" % (name, ": the memory of its node or container was used up" if memory and number == signal.SIGKILL else "")


class Lines:
    """Makes records of one rank's output."""

    def __init__(self, rank):
        self.prefix, self.rest = b"[rank %d]" % rank, b""

    def feed(self, data):
        *whole, self.rest = (self.rest + data).split(b"\n")
        records = b"".join(self.prefix + b" " + line + b"\n" for line in whole)
        return records + (self.part() if len(self.rest) >= PIECE else b"")

    def part(self):
        rest, self.rest = self.rest, b""
        return self.prefix + b"+" + rest + b"\n" if rest else b""


def readable(descriptors, milliseconds=None):
    """Those of them that have bytes, or the end of file."""
    poll = select.poll()
    for fd in descriptors:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(milliseconds)]


class Node:
    """The actor of one node."""

    def __init__(self):
        self.pipes, self.ended = {}, {}  # by local rank: where its output comes from, and its end
        self.held = self.guards = None
        self.lock, self.begun = threading.Lock(), threading.Event()

    def ready(self):
        """Answers once Ray has given the node's CPUs and GPUs to this actor."""

    def port(self, address, ports):
        """A port for rank 0: nobody has it at this moment, and then only a program that sets SO_REUSEADDR (as the servers of torch, Python, Go and gRPC do) can bind it
        beside this actor, which never listens. ports: FIRST-LAST or empty."""
        first, last = (int(p) for p in ports.split("-")) if ports else (0, 0)
        for number in range(last, first - 1, -1) if ports else [0]:
            held = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            try:
                held.bind((address, number))
            except OSError:
                held.close()
                if not ports:
                    raise
                continue
            for option in socket.SO_REUSEADDR, socket.SO_REUSEPORT:
                held.setsockopt(socket.SOL_SOCKET, option, 1)
            self.held = held
            return held.getsockname()[1]
        raise OSError("no port of %s is free at %s" % (ports, address))

    def start(self, command, guard, common, hosts, ranks):
        """ranks: the variables of each rank."""
        with self.lock:
            plan = {"command": command, "hostfile": made(hosts), "ranks": [self.rank(local, variables, len(ranks)) for local, variables in enumerate(ranks)]}
            env = {name: value for name, value in os.environ.items() if name not in OURS}
            env.update(common, RAYCTL_HOSTFILE=plan["hostfile"])
            theirs = [rank[end] for rank in plan["ranks"] for end in ("out", "told")]
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # guard.py takes it once it can pass it on
            try:
                self.guards = subprocess.Popen([sys.executable, "-ISc", guard], stdin=subprocess.PIPE, env=env, pass_fds=theirs)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for fd in theirs:
                os.close(fd)
            self.guards.stdin.write(json.dumps(plan).encode() + b"\n")
            self.guards.stdin.flush()
        self.begun.set()

    def rank(self, local, variables, count):
        """What guard.py gets for a rank; the other ends of its pipes are kept here."""
        for name in VISIBLE:
            if os.environ.get(name):
                variables[name] = devices(os.environ[name], local, count)
        held = int(variables.pop("RAYCTL_NODE_CPUS"))
        if held and os.environ.get("OMP_NUM_THREADS") == str(held):  # by Ray, for the actor
            variables["OMP_NUM_THREADS"] = str(max(1, held // count))
        self.ended[local], told = os.pipe()
        self.pipes[local], out = os.pipe()
        return {"env": variables, "out": out, "told": told}

    def read(self):
        """What ranks have written, at least one byte or one end: (local rank, bytes, None) or (local rank, b"", [wait status, killed for want of memory]). [] at the end."""
        self.begun.wait()
        found = []
        while self.ended and not found:
            ready = readable([*self.pipes.values(), *self.ended.values()])
            found += [part for local in list(self.pipes) if self.pipes[local] in ready for part in self.output(local, PIECE // len(ready))]
            found += [(local, b"", self.end(local)) for local in list(self.ended) if self.ended[local] in ready and not self.has_written(local)]
        return found

    def output(self, local, most):
        """A part of a rank's output. A rank may close it long before it ends."""
        data = os.read(self.pipes[local], most)
        if not data:
            os.close(self.pipes.pop(local))
        return [(local, data, None)] if data else []

    def has_written(self, local):
        """Whether there is output of a rank that has ended."""
        return local in self.pipes and bool(readable([self.pipes[local]], 0))

    def end(self, local):
        """The output is still open if a process has it that is none of this rank's."""
        if local in self.pipes:
            os.close(self.pipes.pop(local))
        told = self.ended.pop(local)
        words = os.read(told, 64).split()
        os.close(told)
        return [int(word) for word in words] or [int(signal.SIGKILL), 0]  # the guard itself was killed

    def stop(self, at_once):
        """SIGTERM for all ranks, or their end."""
        with self.lock:
            if self.guards and at_once:
                self.guards.stdin.close()
            elif self.guards:
                self.guards.send_signal(signal.SIGTERM)


class Driver:
    def __init__(self, job):
        self.job, self.loop, self.begun = job, None, False
        self.rows, self.names, self.counts, self.actors, self.firsts = [], [], [], [], []
        self.lines, self.late, self.living = {}, {}, set()
        self.code, self.last, self.when, self.asked = 0, "", 0.0, False
        self.cut = []  # (node's number, its ranks that had not ended): nodes whose actor does not answer any more
        self.taken = None  # number of the first node that is being taken away

    async def run(self):
        """Returns the exit code."""
        import ray
        self.loop = asyncio.get_running_loop()
        ray.init(address="auto", log_to_driver=False, logging_level="WARNING")
        for number in signal.SIGTERM, signal.SIGINT:
            self.loop.add_signal_handler(number, self.signalled, number)
        try:
            await self.reserve(ray)
            started = await self.begin(ray)
            looking = asyncio.ensure_future(self.look_for_warnings())
            await asyncio.gather(*started, *(self.follow(i) for i in range(len(self.actors))))
            looking.cancel()
        except Refused as error:
            say("rayctl: %s" % error)
            return error.code
        await self.judge()
        if self.last:
            say(self.last)
        return self.code

    async def reserve(self, ray):
        """Makes an actor for each node, with all that the node has."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        self.rows = await self.nodes(ray)
        self.names = called(self.rows)
        here, holder = ray.get_runtime_context().get_node_id(), ray.remote(Node)
        for row in self.rows:
            count, cpus, gpus = share(row, self.job["perNode"], self.job["reserved"] if row["NodeID"] == here else (0, 0))
            self.firsts.append(sum(self.counts))
            self.counts.append(count)
            row["cpus"] = cpus
            self.actors.append(holder.options(num_cpus=cpus, num_gpus=gpus, max_concurrency=4, max_restarts=0,
                                              scheduling_strategy=NodeAffinitySchedulingStrategy(row["NodeID"], soft=False)).remote())
        self.living = set(range(sum(self.counts)))

    async def nodes(self, ray):
        """The nodes that run ranks. Where one was lost before, and is not replaced, it is lost for this attempt, too."""
        begin, said = self.loop.time(), False
        while True:
            rows = required(ray.nodes(), self.job["groups"])
            if rows:
                return rows
            if self.loop.time() > begin + MISSES:
                raise Refused("the ranks did not start, because not all of their nodes are there: " + LOST, NODE_GONE)
            if self.loop.time() > begin + WAITS and not said:
                said = True
                say("rayctl: waiting for a node that is not there any more")
            await asyncio.sleep(0.5)

    async def begin(self, ray):
        """Starts the ranks; returns what waits for that."""
        address = self.rows[0]["NodeManagerAddress"]
        port, *_ = await self.reserved(self.actors[0].port.remote(address, self.job["ports"]), *(actor.ready.remote() for actor in self.actors[1:]))
        total = sum(self.counts)
        common = {"WORLD_SIZE": str(total), "RAYCTL_NODES": str(len(self.rows)), "MASTER_ADDR": address, "MASTER_PORT": str(port), "PYTHONUNBUFFERED": "1",
                  "RAY_ADDRESS": os.environ.get("RAY_ADDRESS") or ray.get_runtime_context().gcs_address}
        hosts = hostfile([row["NodeManagerAddress"] for row in self.rows], self.counts)
        started, self.begun = [], True
        for i, actor in enumerate(self.actors):
            ranks = [{"RANK": str(self.firsts[i] + local), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(self.counts[i]), "NODE_RANK": str(i),
                      "RAYCTL_NODE_CPUS": str(self.rows[i]["cpus"])} for local in range(self.counts[i])]
            started.append(self.answer(i, actor.start.remote(self.job["command"], self.job["guard"], common, hosts, ranks)))
        return started

    async def reserved(self, *refs):
        """The first answers of all actors: then the CPUs and GPUs of all nodes are held. No rank starts before."""
        asked = [asyncio.ensure_future(self.answer(i, ref)) for i, ref in enumerate(refs)]
        waiting = (await asyncio.wait(asked, timeout=WAITS, return_when=asyncio.FIRST_EXCEPTION))[1]
        late = [self.names[i] for i, answer in enumerate(asked) if answer in waiting]
        if late and not any(answer.done() and answer.exception() for answer in asked):
            say("rayctl: waiting for the CPUs and GPUs of the node%s %s" % ("" if len(late) == 1 else "s", ", ".join(late)))
        return await asyncio.gather(*asked)

    async def answer(self, i, ref):
        """The answer of a node's actor, which may have died, or cannot start."""
        import ray
        try:
            return await ref
        except (ray.exceptions.RayError, OSError) as error:
            if await self.is_lost(i):
                raise Refused("%s did not start: %s" % (self.place(i, range(self.firsts[i], self.firsts[i] + self.counts[i])), LOST), NODE_GONE) from None
            raise Refused("%s did not start: %s" % (self.place(i, [self.firsts[i]]), first_line(error))) from None

    async def follow(self, i):
        """Prints what the ranks of one node write, until they have ended."""
        import ray
        while True:
            try:
                found = await self.actors[i].read.remote()
            except ray.exceptions.OutOfMemoryError as error:
                mine = self.cut_off(i)
                if mine:
                    self.failed_first(128 + signal.SIGKILL, "%s %s killed by Ray, because the node's memory was nearly full%s" % (
                        self.place(i, mine), "was" if len(mine) == 1 else "were", used_memory(error)))
                return
            except ray.exceptions.RayError as error:
                mine = self.cut_off(i)
                if mine:
                    self.failed(1, "%s ended: Ray ended the process that runs them: %s" % (self.place(i, mine), first_line(error)))
                return
            if not found:
                return
            for local, data, end in found:
                self.take(self.firsts[i] + local, data)
                if end:
                    self.ended(i, self.firsts[i] + local, end)

    def take(self, rank, data):
        lines = self.lines.setdefault(rank, Lines(rank))
        write(lines.feed(data))
        if b"\n" in data or not lines.rest:
            self.cancel_late(rank)
        if lines.rest and rank not in self.late:  # a progress bar that is written all the time is shown at its first part's time
            self.late[rank] = self.loop.call_later(LATE, self.show_part, rank)

    def cancel_late(self, rank):
        late = self.late.pop(rank, None)
        if late:
            late.cancel()

    def show_part(self, rank):
        self.cancel_late(rank)
        write(self.lines[rank].part())

    def ended(self, i, rank, end):
        self.show_part(rank)
        self.living.discard(rank)
        code, words = outcome(*end)
        if code:
            self.failed(code, "%s %s" % (self.place(i, [rank]), words))

    def cut_off(self, i):
        """Ray has ended the actor of a node, and its ranks with it; returns those that had not ended before."""
        mine = sorted(rank for rank in self.living if self.firsts[i] <= rank < self.firsts[i] + self.counts[i])
        for rank in mine:
            if rank in self.lines:
                self.show_part(rank)
        self.living.difference_update(mine)
        if mine:
            self.cut.append((i, mine))
        return mine

    async def judge(self):
        """When all have ended: a node that was lost is the cause, also where another rank has failed first because it lost its connection to it."""
        if self.asked:
            return
        for i, ranks in self.cut:
            if await self.is_lost(i):
                self.code, self.last = NODE_GONE, "%s ended: %s" % (self.place(i, ranks), LOST)
                return
        if self.taken is not None:
            i = self.taken
            self.code, self.last = NODE_GONE, "%s ended: %s" % (self.place(i, range(self.firsts[i], self.firsts[i] + self.counts[i])), TAKEN)

    async def is_lost(self, i):
        """Whether the node of an actor that does not answer is lost, too: Ray finds that out by its health check, a while after nobody listens there any more."""
        import ray
        row = self.rows[i]
        while any(other["NodeID"] == row["NodeID"] and other["Alive"] for other in ray.nodes()):
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection(row["NodeManagerAddress"], row["NodeManagerPort"]), 2.0)
                writer.close()
                return False
            except (OSError, asyncio.TimeoutError):
                await asyncio.sleep(0.5)
        return True

    async def look_for_warnings(self):
        """A node that Ray drains is going to be taken away, for example a pod that is evicted: its ranks need the others, so all are warned. Where this program's own node
        is drained, too, the run itself ends: the keeper drains all nodes, and stops this program."""
        import ray
        state, here, before, unasked = ray._private.state.state, ray.get_runtime_context().get_node_id(), set(), False
        while not self.asked and not self.code:
            try:
                drained = set(await self.loop.run_in_executor(None, state.get_draining_nodes))
            except Exception as error:  # the head may be slow, and what has ended is seen elsewhere
                if not unasked:
                    unasked = True
                    say("rayctl: asking which nodes are being taken away: %s" % first_line(error))
                await asyncio.sleep(LOOK)
                continue
            leaving = [i for i, row in enumerate(self.rows) if row["NodeID"] in drained & before]  # twice: the keeper's drain goes from node to node
            if leaving and here not in drained and not self.asked and not self.code:
                self.taken = leaving[0]
                say("rayctl: the node %s is being taken away: all ranks get SIGTERM" % self.names[leaving[0]])
                self.end_all()
                return
            before = drained
            await asyncio.sleep(LOOK)

    def place(self, i, ranks):
        """Ranks and their node, in words."""
        return "%s on node %s" % ("rank %d" % ranks[0] if len(ranks) == 1 else "ranks %d to %d" % (ranks[0], ranks[-1]), self.names[i])

    def failed(self, code, sentence):
        """The first failure is that of all. How ranks end that were asked to is of no interest."""
        if self.code or self.asked:
            return
        self.code, self.last, self.when = code, sentence, self.loop.time()
        if self.taken is None:
            self.end_all()

    def failed_first(self, code, sentence):
        """A failure of which Ray tells late: another rank may have failed a moment before because its connection broke."""
        if self.code and not self.asked and self.loop.time() < self.when + SOON:
            self.code, self.last = code, sentence
        self.failed(code, sentence)

    def end_all(self):
        self.stop(False)
        self.loop.call_later(self.job["grace"], self.stop, True)

    def signalled(self, number):
        """Ray warns this program, which warns all ranks. What has not ended when the grace is over is killed with this program: its actors end with it."""
        if not self.begun:
            os._exit(128 + number)
        self.asked = True
        self.stop(False)
        self.loop.call_later(max(0.0, self.job["grace"] - 0.5), self.tell_living)

    def tell_living(self):
        for rank in sorted(self.living)[:8]:
            i = max(i for i, first in enumerate(self.firsts) if first <= rank)
            say("rayctl: rank %d on node %s has not ended, and the grace is nearly over" % (rank, self.names[i]))

    def stop(self, at_once):
        for actor in self.actors:
            actor.stop.remote(at_once)


def first_line(error):
    """Ray's errors have many lines, the first ones of which may only be a heading."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


def used_memory(error):
    """What of the node's memory was used, where the words of Ray's memory monitor say that. rayjob.py has the same for drivers."""
    found = re.search(r"was (?:running was )?([\d.]+\w*)(?: used)? / ([\d.]+\w*)", str(error))
    return ": %s of %s were used (RAY_memory_usage_threshold sets how much may be)" % found.groups() if found else ""


def main(job):
    code = asyncio.run(Driver(job).run())
    import ray
    ray.shutdown()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main(JOB if "JOB" in globals() else json.loads(zlib.decompress(base64.b64decode(os.environ["RAYCTL_RANKS_JOB"]))))  # noqa: F821
