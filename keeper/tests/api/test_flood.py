"""A keeper whose port a stranger floods. Run by `go test ./keeper`; launcher/keeper/flood_test.go is the same with more clients and a real Ray."""

import asyncio
import json
import os
import resource
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from successors import Rig, record

FRIENDS, STRANGERS = 60, 400
DESCRIPTORS = 256  # of the keeper: fewer than strangers
LIMITED = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2); os.execv(sys.argv[2], sys.argv[2:])"
LOG = b"".join(b"line %d of what the driver has printed\n" % i for i in range(30000))


async def stranger(port, number, opened):
    """Opens a connection again and again: a silent one, one that sends a byte of a header each second, or one that sends garbage."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
            continue
        opened.add(number)
        try:
            if number % 3 == 1:
                for byte in b"GET /v1/state HTTP/1.1\r\nX-Long: " + 1000 * b"x":
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1)
            if number % 3 == 2:
                writer.write(os.urandom(1000))
                await writer.drain()
            await reader.read()
        except OSError:
            pass
        writer.close()


async def flood(port, count):
    """The stranger's program: says when all connections were opened, and goes on."""
    opened = set()
    tasks = [asyncio.ensure_future(stranger(port, i, opened)) for i in range(count)]
    while len(opened) < count:
        await asyncio.sleep(0.01)
    print("flooded", flush=True)
    await asyncio.gather(*tasks)


class Friend:
    """A client that has the token, with one connection as long as that lasts."""

    def __init__(self, port):
        self._port, self._connection = port, None
        self.got = bytearray()

    async def ask(self, path, method="GET"):
        """The answer's status and body. A new connection may be dropped before its request has come; then it is made again."""
        while True:
            try:
                if self._connection is None:
                    self._connection = await asyncio.open_connection("127.0.0.1", self._port)
                reader, writer = self._connection
                writer.write(("%s %s HTTP/1.1\r\nAuthorization: Bearer t\r\nContent-Length: 0\r\n\r\n" % (method, path)).encode())
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
                return int(head.split()[1]), await reader.readexactly(size)
            except (OSError, EOFError):
                await asyncio.sleep(0.05)
                self.leave()

    async def follow(self):
        """Takes over the log until the end; returns the final document."""
        revision = -1
        while True:
            _, text = await self.ask("/v1/state?after=%d&timeout=1" % revision)
            state = json.loads(text.decode())
            revision = state["revision"]
            status, piece = await self.ask("/v1/log?offset=%d" % len(self.got))
            self.got += piece if status == 200 else b""
            if "exit" in state and len(self.got) >= state["log"]["bytes"]:
                return state

    def leave(self):
        if self._connection:
            self._connection[1].close()
        self._connection = None


class Flood(Rig):
    def test_friends_do_not_notice(self):
        self.head.log = LOG
        run_dir = self.pod(commit={})
        keeper = self.keeper(run_dir, "pod-keeper", [sys.executable, "-c", LIMITED, str(DESCRIPTORS)])
        url = self.until(run_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")["keeper"]["url"]
        documents = asyncio.run(asyncio.wait_for(self.scene(int(url.rpartition(":")[2]), keeper), 300))
        self.assertEqual({d["exit"]["code"] for d in documents}, {0})
        self.assertEqual(keeper.wait(60), 0)
        self.assertEqual(self.ended(run_dir)["exit"]["cause"], "succeeded")
        with open(os.path.join(run_dir, "keeper.log")) as f:
            self.assertNotIn("cannot write", f.read())

    async def scene(self, port, keeper):
        friends = [Friend(port) for _ in range(FRIENDS)]
        early = [asyncio.ensure_future(f.follow()) for f in friends[:FRIENDS // 2]]
        attacker = subprocess.Popen([sys.executable, os.path.abspath(__file__), "flood", str(port), str(STRANGERS)], stdout=subprocess.PIPE)
        try:
            flooded = await asyncio.get_running_loop().run_in_executor(None, attacker.stdout.readline)
            self.assertEqual(flooded, b"flooded\n")
            late = [asyncio.ensure_future(f.follow()) for f in friends[FRIENDS // 2:]]
            while any(len(f.got) < len(LOG) for f in friends):
                await asyncio.sleep(0.05)
            if sys.platform.startswith("linux"):
                self.assertLess(len(os.listdir("/proc/%d/task" % keeper.pid)), FRIENDS + 20)
                self.assertLess(len(os.listdir("/proc/%d/fd" % keeper.pid)), DESCRIPTORS)
            for job in self.head.known:
                self.head.known[job] = record("SUCCEEDED", 0)
            documents = await asyncio.gather(*early, *late)
            self.assertTrue(all(bytes(f.got) == LOG for f in friends))
            self.assertEqual((await friends[0].ask("/v1/recorded", "POST"))[0], 200)
        finally:
            attacker.kill()
            attacker.wait()
            attacker.stdout.close()
            for friend in friends:
                friend.leave()
        return documents


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 4096), hard))
    if sys.argv[1:2] == ["flood"]:
        asyncio.run(flood(int(sys.argv[2]), int(sys.argv[3])))
    else:
        unittest.main()
