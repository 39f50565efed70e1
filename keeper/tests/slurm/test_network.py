"""A node's address and ports, and what large clusters are started with. Run by `go test ./keeper`."""

import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import address, portrange
from rayctl_keeper.node.groups import members
from rayctl_keeper.node.start import burst, nodeports, raystart
from rayctl_keeper.slurm.doctor import network, reach


@unittest.skipUnless(sys.platform.startswith("linux"), "nodes have Linux")
class Addresses(unittest.TestCase):
    def on(self, interfaces, name=(), routes=(), **how):
        """What a host with these interfaces, addresses of its name and routes answers."""
        found = [(i, ipaddress.ip_address(a)) for i, a in interfaces]
        with unittest.mock.patch.object(address, "addresses", lambda: found), unittest.mock.patch.object(address, "by_name", lambda: list(name)), \
                unittest.mock.patch.object(address, "route", lambda to: dict(routes).get(to, "")), unittest.mock.patch.dict(os.environ, SLURMD_NODENAME="n1"):
            try:
                return address.own(**how)
            except address.NoAddress as error:
                return str(error)

    LO, TWO = ("lo", "127.0.0.1"), [("lo", "127.0.0.1"), ("eth0", "10.0.0.1"), ("ib0", "10.1.0.1"), ("ib0:1", "10.2.0.1"), ("ib0", "fd01::1")]

    def test_network(self):
        for chosen, want in (("ib0", "10.1.0.1"), ("10.2.0.0/16", "10.2.0.1"), ("ib0:1", "10.2.0.1"), ("hsn0, eth0", "10.0.0.1"), ("fd01::/16", "fd01::1"), ("10.1.0.1/16", "10.1.0.1")):
            self.assertEqual(self.on(self.TWO, name=["10.0.0.1"], network=chosen), want)
        said = "n1 has no address in slurm.network %s; it has 10.0.0.1 on eth0, 10.1.0.1 on ib0, 10.2.0.1 on ib0:1, fd01::1 on ib0"
        for chosen in ("10.3.0.0/16", "lo", "127.0.0.0/8", "ib"):
            self.assertEqual(self.on(self.TWO, network=chosen), said % chosen)
        self.assertEqual(self.on([self.LO], network="eth0"), "n1 has no address in slurm.network eth0; it has none but loopback")
        self.assertEqual(self.on(self.TWO, network="lo", several=False), "127.0.0.1")

    def test_free_ports(self):
        with socket.socket() as s:
            s.bind(("", 0))
            s.listen()
            port = s.getsockname()[1]
            for needed, want in ((1, "ok 1 of 2 ports are free"), (2, "no 1 of 2 ports are free, and a node with the keeper beside it needs 2")):
                with unittest.mock.patch.object(network.ports, "is_free", lambda host, p, again: p == port):
                    self.assertTrue(network.free("%d-%d" % (port, port + 1), needed).startswith(want))
            self.assertFalse(network.ports.is_free("", port, again=True))

    def test_reach(self):
        """Both sides, here on one host; a stranger who connects first is no answer."""
        with tempfile.TemporaryDirectory() as directory, unittest.mock.patch.object(address, "own", lambda *_, **__: "127.0.0.1"), \
                unittest.mock.patch.dict(os.environ, SLURMD_NODENAME="n1"):
            said = []
            head = threading.Thread(target=lambda: said.append(reach.listen(directory, "", "")))
            head.start()
            while reach.LISTENS not in os.listdir(directory):
                time.sleep(0.01)
            with open(os.path.join(directory, reach.LISTENS)) as f:
                host, port, _, _ = json.load(f)
            with socket.create_connection((host, port)) as stranger:
                stranger.sendall(b"word 127.0.0.1 1\n")
            self.assertEqual(reach.connect(directory, "", ""), "ok n1 (127.0.0.1) and n1 (127.0.0.1) reach each other")
            head.join()
            self.assertEqual(said, ["ok"])
            self.assertIn("no n1 (127.0.0.1) cannot connect to n1 (127.0.0.1): ", reach.connect(directory, "", ""))  # which does not listen any more
            open(os.path.join(directory, reach.OVER), "w").close()
            self.assertEqual((reach.listen(directory, "", ""), reach.connect(directory, "", "")), ("", ""))

    def test_without_network(self):
        anywhere = (address.ANYWHERE, "10.1.0.1")
        self.assertEqual(self.on(self.TWO, name=["127.0.1.1", "10.0.0.1"], routes=[anywhere]), "10.0.0.1")
        self.assertEqual(self.on(self.TWO, name=["127.0.1.1"], routes=[anywhere]), "10.1.0.1")
        self.assertEqual(self.on(self.TWO, name=["192.168.7.7"], routes=[anywhere]), "10.1.0.1")  # of another host
        self.assertEqual(self.on(self.TWO[:2] + [("usb0", "169.254.3.1"), ("ib0", "fd01::1")], name=["127.0.1.1"]), "10.0.0.1")
        self.assertEqual(self.on([self.LO, ("ib0", "fd01::1")]), "fd01::1")

    def test_never_loopback(self):
        self.assertEqual(self.on(self.TWO[:3], name=["127.0.1.1"]), "n1 has 10.0.0.1 on eth0, 10.1.0.1 on ib0, and neither its name nor a default route shows which of them "
                         "other nodes reach: set slurm.network")
        self.assertEqual(self.on([self.LO], name=["127.0.1.1"], routes=[(address.ANYWHERE, "127.0.0.1")]),
                         "n1 has no address that other nodes reach, its name stands for 127.0.1.1: set slurm.network")
        for interfaces in (self.TWO, [self.LO]):
            self.assertEqual(self.on(interfaces, name=["127.0.1.1"], several=False), "127.0.0.1")

    def test_worker(self):
        self.assertEqual(self.on(self.TWO, name=["10.0.0.1"], routes=[("10.1.0.9", "10.1.0.1")], head="10.1.0.9"), "10.1.0.1")
        self.assertEqual(self.on(self.TWO[:3], head="10.9.0.9"), "n1 has no route to the head's address 10.9.0.9, it has 10.0.0.1 on eth0, 10.1.0.1 on ib0: "
                         "set slurm.network to a network of all nodes")

    def test_this_host(self):
        """The kernel's answers, as they are here."""
        self.assertIn(("lo", ipaddress.ip_address("127.0.0.1")), address.addresses())
        self.assertEqual(address.own("127.0.0.0/8", several=False), "127.0.0.1")
        self.assertEqual(address.route("127.0.0.9"), "127.0.0.1")


@unittest.skipUnless(sys.platform.startswith("linux"), "claims are abstract sockets")
class Ports(unittest.TestCase):
    def test_two_processes(self):
        """They share no port; a cluster for which none are left gets an error; what one had is free when it ends."""
        wanted = "19003-19130"  # 128 ports, and no multiple of the groups
        take = "import sys; from rayctl_keeper.host.portrange import Range as R; print(*R(%r, 20, 50).others(()), flush=True); sys.stdin.read()" % wanted
        other = subprocess.Popen([sys.executable, "-c", take], cwd=os.path.dirname(HERE), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with other:
            theirs = {int(port) for port in other.stdout.readline().split()}
            ours = portrange.Range(wanted, 20, 1000)
            mine = set(ours.others(()))
            self.assertTrue(50 <= len(theirs) <= 65 and mine <= set(range(19003, 19131)), (theirs, mine))
            self.assertFalse(theirs & mine)
            self.assertGreaterEqual(len(theirs | mine), 120)  # somebody else may have one or the other
            with self.assertRaisesRegex(OSError, r"^0 of the ports 19003-19130 \(slurm.ports\) are free here and 1 are needed: "):
                portrange.Range(wanted, 1, 1)
            other.stdin.close()
            other.wait()
        self.assertTrue(portrange.Range(wanted, 20, 50))
        first = ours.take("127.0.0.1", 3)
        self.assertFalse(set(first) & set(ours.take("127.0.0.1", 3)))
        self.assertFalse(set(first) & set(ours.others(first)))

    def test_of_a_node(self):
        orders = {"ray": {"version": "2.60.0"}, "groups": [{"name": "head", "count": 1, "cpus": 4}], "ports": "18000-18999"}
        ports = nodeports.Ports(orders, members.members(orders)[0], {})
        chosen = ports.choose()
        workers = [int(port) for port in chosen.pop("worker-port-list").split(",")]
        single = list(chosen.values()) + [int(ports.variables()["DASHBOARD_METRIC_PORT"])]
        self.assertEqual(set(chosen), set(nodeports.AGENTS + nodeports.RAYLET))
        self.assertEqual(len(set(single + workers)), len(single) + len(workers))
        self.assertTrue(64 + 8 * 4 <= len(workers) <= 64 + 8 * 4 + 16 and set(single + workers) <= set(range(18000, 19000)))


class Burst(unittest.TestCase):
    def environment(self, count, **env):
        orders = {"name": "n", "ray": {"python": "python3", "env": env}, "groups": [{"name": "head", "count": count}], "lifetime": {}}
        return raystart.environment(orders, members.members(orders)[0], "/tmp/r", "/run", {}, {"SLURM_CPUS_ON_NODE": "3000", "RAY_event_stats": "true"})

    def test_many_nodes(self):
        few, many = self.environment(burst.MANY - 1), self.environment(burst.MANY, RAY_gcs_server_request_timeout_seconds="7")
        self.assertFalse(set(burst.SETTINGS) - {"RAY_event_stats"} & set(few))
        self.assertFalse(set(burst.SETTINGS) - set(many))
        self.assertEqual((many["RAY_worker_register_timeout_seconds"], many["RAY_gcs_server_rpc_server_thread_num"]), ("120", "3000"))
        self.assertEqual((many["RAY_gcs_server_request_timeout_seconds"], many["RAY_event_stats"]), ("7", "true"))  # the user's


if __name__ == "__main__":
    unittest.main()
