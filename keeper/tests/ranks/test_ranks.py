"""Ranks: which nodes and devices, records of output, and how one rank ends. Run by `go test ./keeper` with every Python that the machine has."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.driver import rayjob
from rayctl_keeper.ranks import guard, main


def memory_group():
    """A cgroup with the controller of memory, in which others can be made; None where there is none."""
    found = None
    with contextlib.suppress(OSError):
        with open("/proc/self/cgroup") as f:
            groups = [line.rstrip("\n").split(":", 2)[1:] for line in f]
        for controllers, group in groups:
            if controllers == "memory":
                found = "/sys/fs/cgroup/memory" + group
        with open("/sys/fs/cgroup/cgroup.subtree_control") as f:
            found = "/sys/fs/cgroup" if "memory" in f.read().split() else found
    return found if found and os.access(found, os.W_OK) else None


def row(name, group="", head=False, host="h", **resources):
    given = dict(resources, **({"node:__internal_head__": 1.0} if head else {}))
    return {"NodeID": "id-" + name, "Alive": True, "NodeName": name, "NodeManagerHostname": host, "NodeManagerAddress": "10.0.0.1", "Resources": given,
            "Labels": {"ray.io/node-group": group} if group else {}}


def group(name, count, head=False, runs=True):
    return {"name": name, "count": count, "head": head, "runs": runs}


class Nodes(unittest.TestCase):
    def names(self, rows, *groups):
        found = main.required(rows, list(groups))
        return found and [r["NodeName"] for r in found]

    def test_elastic_nodes_are_left_out(self):
        rows = [row("w-10"), row("w-2"), row("w-1"), row("w-0", head=True), row("big-0")]
        self.assertEqual(self.names(rows, group("w", 2, head=True), group("big", 1)), ["w-0", "w-1", "big-0"])
        self.assertEqual(self.names(rows, group("w", 2, head=True), group("big", 1, runs=False)), ["w-0", "w-1"])

    def test_a_missing_node_is_waited_for(self):
        dead = dict(row("w-1"), Alive=False)
        self.assertIsNone(self.names([row("w-0", head=True), dead, row("w-2")], group("w", 2, head=True)))

    def test_pods(self):
        rows = [row("10.0.0.3", "w"), row("10.0.0.2", "w"), row("10.0.0.1", "headgroup", head=True)]
        self.assertEqual(self.names(rows, group("head", 1, head=True, runs=False), group("w", 2)), ["10.0.0.2", "10.0.0.3"])
        self.assertEqual(self.names(rows, group("w", 2, head=True)), ["10.0.0.1", "10.0.0.2"])
        unlabelled = [dict(r, Labels={}) for r in rows]
        self.assertEqual(self.names(unlabelled, group("head", 1, head=True, runs=False), group("w", 2)), ["10.0.0.2", "10.0.0.3"])

    def test_the_end_of_a_ghost_is_waited_for(self):
        """A container started again in its pod, and Ray takes the former node for alive: their ids do not say which of the two it is."""
        groups = group("headgroup", 1, head=True, runs=False), group("w", 2)
        rows = [row("10.0.0.1", "headgroup", head=True), row("10.0.0.2", "w"), row("10.0.0.3", "w")]
        ghost = dict(rows[1], NodeID="former")
        self.assertIsNone(self.names([*rows, ghost], *groups))
        self.assertEqual(main.required([*rows, dict(ghost, Alive=False)], list(groups)), rows[1:])
        self.assertIsNone(self.names([row("w-0", head=True), row("w-1"), dict(row("w-1"), NodeID="former")], group("w", 2, head=True)))
        # Ghosts on which no rank would be put hold up nobody.
        self.assertEqual(self.names([row("w-0", head=True), row("w-1"), row("w-2"), dict(row("w-2"), NodeID="former")], group("w", 2, head=True)), ["w-0", "w-1"])
        self.assertEqual(self.names([*rows, ghost, row("10.0.0.4", "big")], *groups[:1], group("w", 2, runs=False), group("big", 1)), ["10.0.0.4"])

    def test_names(self):
        self.assertEqual(main.called([row("w-0", host="a"), row("w-1", host="b")]), ["w-0 (a)", "w-1 (b)"])
        self.assertEqual(main.called([row("w-0"), row("w-1")]), ["w-0", "w-1"])
        self.assertEqual(main.called([row("10.0.0.1", host="pod-a"), row("10.0.0.1", host="pod-b")]), ["pod-a", "pod-b"])

    def test_share(self):
        self.assertEqual(main.share(row("w-0", CPU=8.0, GPU=4.0), "gpu", (0, 0)), (4, 8, 4))
        self.assertEqual(main.share(row("w-0", CPU=8.0, GPU=4.0), 2, (1.5, 0)), (2, 6, 4))
        self.assertEqual(main.share(row("head-0", CPU=0.0), 3, (0, 0)), (3, 0, 0))
        for each, resources in (("gpu", {"CPU": 1.0}), (3, {"CPU": 2.0}), (3, {"CPU": 8.0, "GPU": 4.0})):
            with self.assertRaises(main.Refused):
                main.share(row("w-0", **resources), each, (0, 0))

    def test_devices(self):
        self.assertEqual([main.devices("3,1,GPU-a,0", i, 2) for i in range(2)], ["3,1", "GPU-a,0"])
        self.assertEqual([main.devices("10,9", i, 4) for i in range(4)], ["9", "9", "10", "10"])
        self.assertEqual(main.devices("2,0,1", 0, 1), "0,1,2")
        self.assertEqual(main.devices("0,1", 0, 1), "0,1")

    def test_hostfile(self):
        self.assertEqual(main.hostfile(["a", "b", "a"], [2, 1, 2]), "a slots=4\nb slots=1\n")


class Ports(unittest.TestCase):
    def held(self, *ports):
        """One of these that are free is held by a node's actor; the number, and whether it listens."""
        node = main.Node()
        number = node.port("127.0.0.1", "%d-%d" % ports if ports else "")
        self.addCleanup(node.held.close)
        return number

    def test_of_the_sites_range(self):
        last = self.held()
        self.assertIn(self.held(last - 20, last), range(last - 20, last))  # the last one is taken
        with self.assertRaisesRegex(OSError, "no port of %d-%d is free" % (last, last)):
            self.held(last, last)

    def test_rank_0_can_have_it(self):
        number = self.held()
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", number))
            server.listen()
            with socket.socket() as other, self.assertRaises(OSError):
                other.bind(("127.0.0.1", number))


class Records(unittest.TestCase):
    def test_lines_and_parts(self):
        lines = main.Lines(3)
        self.assertEqual(lines.feed(b"one\ntw"), b"[rank 3] one\n")
        self.assertEqual(lines.part(), b"[rank 3]+tw\n")
        self.assertEqual(lines.feed(b"o\r\n\nend"), b"[rank 3] o\r\n[rank 3] \n")
        self.assertEqual(lines.part() + lines.part(), b"[rank 3]+end\n")

    def test_a_long_line_is_not_kept(self):
        lines = main.Lines(0)
        self.assertEqual(lines.feed(b"x" * main.PIECE), b"[rank 0]+" + b"x" * main.PIECE + b"\n")
        self.assertEqual(lines.rest, b"")

    def test_outcome(self):
        self.assertEqual(main.outcome(7 << 8, 0), (7, "exited with 7"))
        self.assertEqual(main.outcome(137 << 8, 0), (137, "exited with 137 (SIGKILL)"))
        self.assertEqual(main.outcome(int(signal.SIGTERM), 1), (143, "was killed by SIGTERM"))
        self.assertIn("memory", main.outcome(int(signal.SIGKILL), 1)[1])


class Shown(unittest.TestCase):
    """What the driver prints of ranks, without Ray."""

    def setUp(self):
        self.driver, self.shown = main.Driver({}), []
        self.addCleanup(setattr, main, "write", main.write)
        main.write = lambda data: data and self.shown.append(data)

    def test_a_progress_bar_is_shown_while_it_moves(self):
        async def bar():
            self.driver.loop = asyncio.get_running_loop()
            for number in range(20):
                self.driver.take(0, b"\r%d" % number)
                await asyncio.sleep(main.LATE / 4)
            before = len(self.shown)
            self.driver.take(0, b"end\n")
            await asyncio.sleep(2 * main.LATE)
            return before

        self.assertGreater(asyncio.run(bar()), 1)
        text = b"".join(self.shown)
        self.assertEqual(text.replace(b"\n[rank 0] ", b"").replace(b"\n[rank 0]+", b""), b"[rank 0]+" + b"".join(b"\r%d" % number for number in range(20)) + b"end\n")

    def test_all_nodes_are_waited_for(self):
        async def begin():
            free = asyncio.get_running_loop().create_future()
            begun = asyncio.ensure_future(self.driver.reserved(self.now(7), free, self.now(None)))
            await asyncio.sleep(0.3)
            self.assertFalse(begun.done())
            free.set_result(None)
            return await begun

        self.driver.names, self.driver.answer = ["a-0", "a-1", "a-2"], lambda i, ref: ref
        self.addCleanup(setattr, main, "WAITS", main.WAITS)
        main.WAITS = 0.1
        self.assertEqual(asyncio.run(begin()), [7, None, None])
        self.assertEqual(self.shown, [b"rayctl: waiting for the CPUs and GPUs of the node a-1\n"])

    def test_ray_tells_late_that_it_has_killed(self):
        """For want of memory; the connection to that rank broke at once."""
        async def fails(before):
            driver = main.Driver({})
            driver.loop, driver.end_all = asyncio.get_running_loop(), lambda: ended.append(driver.code)
            driver.failed(3, "rank 0")
            driver.when -= before
            driver.failed_first(137, "rank 1 without memory")
            driver.failed(4, "rank 2")
            return driver.code, driver.last

        ended = []
        self.assertEqual(asyncio.run(fails(0.0)), (137, "rank 1 without memory"))
        self.assertEqual(asyncio.run(fails(main.SOON)), (3, "rank 0"))
        self.assertEqual(ended, [3, 3])
        self.assertEqual(main.used_memory("Memory on the node (IP: 192.0.2.2, ID: 31d2) was 3.34GB used / 23.54GB limit (0.14)"),
                         ": 3.34GB of 23.54GB were used (RAY_memory_usage_threshold sets how much may be)")
        self.assertEqual(main.used_memory("other words"), "")
        for message in "was 3.34GB used / 23.54GB limit", " was running was 7.67GB / 23.54GB (0.325958)":  # the program of ranks is sent alone, without rayjob.py
            self.assertEqual(main.used_memory(message), ": " + rayjob.low_memory(message))

    def test_a_node_that_refuses_is_no_node_that_is_waited_for(self):
        async def begin():
            await self.driver.reserved(self.now(7), self.fails(), asyncio.get_running_loop().create_future())

        self.driver.names, self.driver.answer = ["a-0", "a-1", "a-2"], lambda i, ref: ref
        with self.assertRaisesRegex(main.Refused, "no"):
            asyncio.run(begin())
        self.assertEqual(self.shown, [])

    async def now(self, value):
        return value

    async def fails(self):
        raise main.Refused("no")


@unittest.skipUnless(sys.platform == "linux", "orphans are only inherited on Linux")
class Guard(unittest.TestCase):
    def start(self, command, ranks=1, within=None):
        """The guard of a node with one rank, or the outputs of several; with their status. within: a cgroup."""
        pipes = [(os.pipe(), os.pipe()) for _ in range(ranks)]
        theirs = [fd for (_, out), (_, told) in pipes for fd in (out, told)]
        process = subprocess.Popen([sys.executable, "-ISc", self.program()], stdin=subprocess.PIPE, pass_fds=theirs)
        for fd in theirs:
            os.close(fd)
        if within:
            with open(within + "/cgroup.procs", "w") as f:
                f.write(str(process.pid))
        plan = {"command": command, "hostfile": os.devnull + "-not", "ranks": [{"env": {"RANK": str(i)}, "out": out, "told": told} for i, ((_, out), (_, told)) in enumerate(pipes)]}
        process.stdin.write(json.dumps(plan).encode() + b"\n")
        process.stdin.flush()
        self.outputs, self.statuses = [os.fdopen(source, "rb") for (source, _), _ in pipes], [status for _, (status, _) in pipes]
        for status in self.statuses:
            self.addCleanup(os.close, status)
        self.addCleanup(process.wait)
        for output in self.outputs + [process.stdin]:
            self.addCleanup(output.close)
        return process

    def program(self):
        with open(guard.__file__) as f:
            return f.read()

    def ended(self, rank=0):
        """All that is written to the end: nobody can write any more then. And the wait status."""
        out, self.told = self.outputs[rank].read(), os.read(self.statuses[rank], 64)
        return out, int(self.told.split()[0])

    def test_exit_code_and_what_is_left_running(self):
        self.start("(setsid sleep 1000 &) ; echo out; echo err >&2; exit 7")
        self.assertEqual(self.ended(), (b"out\nerr\n", 7 << 8))

    def test_the_actor_ends(self):
        process = self.start("echo begun; (setsid sleep 1000 &); sleep 1000")
        self.assertEqual(self.outputs[0].readline(), b"begun\n")
        process.stdin.close()
        self.assertEqual(self.ended(), (b"", int(signal.SIGKILL)))

    def test_sigterm_reaches_all_and_is_waited_for(self):
        process = self.start("""sh -c 'trap "echo saved; exit 0" TERM; echo begun; while :; do sleep 0.05; done'; exit 3""")
        self.assertEqual(self.outputs[0].readline(), b"begun\n")
        process.send_signal(signal.SIGTERM)
        out, status = self.ended()
        self.assertIn(b"saved\n", out)
        self.assertEqual(status, int(signal.SIGTERM))

    def test_each_rank_ends_alone(self):
        process = self.start("echo $RANK; test $RANK = 1 || exec sleep 1000; exit 1", ranks=3)
        self.assertEqual(self.ended(1), (b"1\n", 1 << 8))
        self.assertEqual([self.outputs[0].readline(), self.outputs[2].readline()], [b"0\n", b"2\n"])
        process.send_signal(signal.SIGTERM)
        self.assertEqual([self.ended(0), self.ended(2)], [(b"", int(signal.SIGTERM))] * 2)
        self.assertEqual(process.wait(), 0)

    @unittest.skipUnless(memory_group(), "needs root and a cgroup in which the memory of others can be limited")
    def test_a_rank_without_memory(self):
        limited = tempfile.mkdtemp(prefix="rayctl-test-", dir=memory_group())
        self.addCleanup(os.rmdir, limited)
        for name in "memory.limit_in_bytes", "memory.max":
            if os.path.exists(limited + "/" + name):
                with open(limited + "/" + name, "w") as f:
                    f.write(str(64 << 20))
        process = self.start("kill -KILL $$", within=limited)
        self.assertEqual((self.ended()[1], self.told), (int(signal.SIGKILL), b"9 0"))
        process.wait()
        process = self.start("exec tail /dev/zero", within=limited)
        self.assertEqual((self.ended()[1], self.told), (int(signal.SIGKILL), b"9 1"))
        process.wait()

    def test_what_does_not_start_fails(self):
        self.start("true; \0")
        self.assertEqual(self.ended(), (b"rayctl: /bin/sh did not start: embedded null byte\n", guard.NOT_STARTED << 8))


@unittest.skipUnless(sys.platform == "linux", "orphans are only inherited on Linux")
class OfNode(unittest.TestCase):
    """The actor of a node, without Ray."""

    def start(self, command, ranks=2):
        node = main.Node()
        with open(guard.__file__) as f:
            node.start(command, f.read(), {"WORLD_SIZE": str(ranks)}, "h slots=%d\n" % ranks, [{"RANK": str(i), "RAYCTL_NODE_CPUS": "0"} for i in range(ranks)])
        self.addCleanup(node.guards.wait)
        self.addCleanup(node.stop, True)
        return node

    def read(self, node, until=lambda outputs, ends: False):
        """Outputs and ends of ranks, up to this or the end."""
        outputs, ends = {}, {}
        while not until(outputs, ends):
            found = node.read()
            if not found:
                break
            for local, data, end in found:
                outputs[local] = outputs.get(local, b"") + data
                ends.update({local: end} if end else {})
        return outputs, ends

    def test_a_rank_that_closes_its_output_holds_up_nobody(self):
        node = self.start("test $RANK = 1 || exec sleep 1000 >&- 2>&-; echo 1; exit 3")
        self.assertEqual(self.read(node, lambda _, ends: ends), ({1: b"1\n"}, {1: [3 << 8, 0]}))
        node.stop(False)
        self.assertEqual(self.read(node), ({0: b""}, {0: [int(signal.SIGTERM), 0]}))

    def test_a_rank_whose_guard_is_killed_has_ended(self):
        node = self.start("test $RANK = 0 || exit 0; (setsid sleep 1000 & echo $!); kill -KILL $PPID", ranks=1)
        outputs, ends = self.read(node)
        os.kill(int(outputs[0]), signal.SIGKILL)
        self.assertEqual(ends, {0: [int(signal.SIGKILL), 0]})

    def test_the_hostfile_is_removed(self):
        node = self.start("cat $RAYCTL_HOSTFILE; echo $RAYCTL_HOSTFILE")
        outputs, ends = self.read(node)
        self.assertEqual(ends, {0: [0, 0], 1: [0, 0]})
        content, path = outputs[0].decode().splitlines()
        node.guards.wait()
        self.assertEqual((content, os.path.exists(path)), ("h slots=2", False))


if __name__ == "__main__":
    unittest.main()
