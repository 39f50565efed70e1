"""Arguments and environment of `ray start`. Run by `go test ./keeper` with every Python that the machine has."""

import json
import os
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.host import ended
from rayctl_keeper.node.files import nodelogs
from rayctl_keeper.node.groups import members
from rayctl_keeper.node.start import raystart
from rayctl_keeper.run.nodes import addresses
from sample import HOSTILE, orders


class RayStart(unittest.TestCase):
    BASE = {"RAYCTL_GCS": "10.0.0.1:1234", "RAYCTL_DASHBOARD": "10.0.0.1:2", "RAYCTL_CLIENT_PORT": "3", "RAYCTL_NODE_IP": "10.0.0.1"}

    def test_environment(self):
        o = orders()
        o["ray"]["env"] = {"A": "ray", "B": HOSTILE}
        o["groups"][1]["env"] = {"A": "group"}
        base = dict(self.BASE, RAY_ADDRESS="x", SLURM_JOB_ID="1", SLURM_JOBID="1", SLURM_PROCID="0", SLURM_NTASKS="2", SLURM_NODELIST="n", SLURM_CONF="c", PMIX_RANK="0", OMPI_X="1", RAYCTL_PROFILE="p",
                    RAY_AUTH_TOKEN="t", RAY_JOB_CONFIG_JSON_ENV_VAR="{}", RAY_memory_usage_threshold="1", PATH="/bin", CUDA_VISIBLE_DEVICES="0")
        env = raystart.environment(o, members.members(o)[1], "/tmp/r1", "/run", {"S": "secret"}, base)
        for gone in ("SLURM_JOBID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NODELIST", "PMIX_RANK", "OMPI_X", "RAYCTL_PROFILE", "RAY_AUTH_TOKEN", "RAY_JOB_CONFIG_JSON_ENV_VAR"):
            self.assertNotIn(gone, env)
        self.assertEqual((env["A"], env["B"], env["S"], env["SLURM_CONF"], env["CUDA_VISIBLE_DEVICES"], env["RAY_memory_usage_threshold"]),
                         ("group", HOSTILE, "secret", "c", "0", "1"))
        self.assertEqual((env["SLURM_JOB_ID"], env["RAYCTL_RUN"], env["RAYCTL_OUTPUT_DIR"]), ("1", "n", ""))
        for of in ({"outputDir": "/out", "job": None}, {"job": dict(o["job"], outputDir="/out")}):
            self.assertEqual(raystart.environment(dict(o, **of), members.members(o)[1], "/tmp/r1", "/run", {}, base)["RAYCTL_OUTPUT_DIR"], "/out")
        self.assertEqual((env["RAY_AUTH_MODE"], env["RAY_AUTH_TOKEN_PATH"], env["RAY_JOB_STOP_WAIT_TIME_S"]), ("token", "/run/ray-token.0", "3"))
        self.assertEqual((env["RAY_ADDRESS"], env["RAY_prestart_worker_first_driver"], env["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"]), ("10.0.0.1:1234", "0", "60"))
        self.assertTrue(env["PATH"].startswith("/opt/venv/bin:"))

    def test_who_tells_what_waits(self):
        """The head of a cluster without elastic groups, in which no autoscaler does."""
        o = orders()
        elastic = dict(o, groups=[dict(g, max=4) if i else g for i, g in enumerate(o["groups"])])
        for of, index, want in ((o, 0, True), (o, 1, False), (elastic, 0, False), (elastic, 1, False)):
            env = raystart.environment(of, members.members(of)[index], "/tmp/r1", "/run", {}, self.BASE)
            self.assertEqual(json.loads(env.get("RAYCTL_WAITING", "null")), {"runDir": "/run", "groups": {}, "most": 0} if want else None)

    def test_interfaces_of_collectives(self):
        """torch.distributed uses the network of the nodes' addresses, unless the user says another."""
        def of(o, address="127.0.0.1", groups=2):
            o["groups"] = o["groups"][:groups]
            env = raystart.environment(o, members.members(o)[0], "/tmp/r1", "/run", {}, dict(self.BASE, RAYCTL_NODE_IP=address))
            return env.get("GLOO_SOCKET_IFNAME"), env.get("NCCL_SOCKET_IFNAME")
        step = {"start": {"mode": "step"}}
        self.assertEqual(of(dict(orders(), **step)), ("lo", None))
        self.assertEqual(of(dict(orders(), network="lo,10.0.0.0/8", **step)), ("lo", "lo"))
        self.assertEqual(of(dict(orders(), network="lo", ray=dict(orders()["ray"], env={"NCCL_SOCKET_IFNAME": "ib0"}), **step)), ("lo", "ib0"))
        self.assertEqual(of(dict(orders(), network="lo", **step), "192.0.2.7"), (None, None), "not one of this node")
        self.assertEqual(of(dict(orders(), start={"mode": "spawn"})), (None, None), "one machine")

    def test_ports_that_ray_chooses(self):
        base = dict(self.BASE, RAYCTL_GCS="10.0.0.1:0", RAYCTL_DASHBOARD="127.0.0.1:0", RAYCTL_ROUND="2")
        o = orders()
        head, late = (raystart.environment(o, members.members(o)[i], "/tmp/r1", "/run", {}, dict(base, RAYCTL_GCS=gcs))
                      for i, gcs in ((0, "10.0.0.1:0"), (1, "10.0.0.1:4321")))  # one that starts later knows the GCS
        for env in (head, late):
            self.assertEqual(env["RAY_ADDRESS"], "")  # set when the head has told it
            self.assertEqual({k: v for k, v in json.loads(env["RAYCTL_HEAD_FILE"]).items() if k != "pause"},
                             {"place": "/run/addresses", "round": 2, "host": "10.0.0.1", "dashboardHost": "127.0.0.1"})
        self.assertEqual((head["RAY_gcs_server_port_wait_time_s"], late.get("RAY_gcs_server_port_wait_time_s")), ("120", None))
        arguments = raystart.arguments(o, members.members(o)[0], "/tmp/r1", "/run", base, {})
        self.assertIn("--port=0", arguments)
        self.assertIn("--dashboard-port=0", arguments)

    def test_on_loopback(self):
        # That a real Ray 2.40 then listens for no other host is shown by TestPartitions/OldRay of slurm.
        def local(version, groups, **base):
            o = orders()
            o["ray"]["version"], o["groups"] = version, o["groups"][:groups]
            env = raystart.environment(o, members.members(o)[0], "/tmp/r1", "/run", {}, dict(self.BASE, PATH="/bin", **base))
            return env.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
        loopback = {"RAYCTL_NODE_IP": "127.0.0.1"}
        self.assertEqual(local("2.40.0", 1, **loopback), "0")
        for other in (local("2.40.0", 2, **loopback), local("2.40.0", 1), local("2.52.0", 1, **loopback), local("", 1, **loopback)):
            self.assertIsNone(other)

    def test_arguments(self):
        o, ports = orders(), {"dashboard-agent-listen-port": 1, "worker-port-list": "7,8"}
        head = raystart.arguments(o, members.members(o)[0], "/tmp/r1", "/run", self.BASE, ports)
        self.assertEqual(head[:4], ["/opt/venv/bin/python", os.path.dirname(HERE), "ray", "start"])
        for wanted in ("--head", "--port=1234", "--num-cpus=0", "--dashboard-agent-listen-port=1", "--worker-port-list=7,8", "--node-ip-address=10.0.0.1", "--node-name=head-0", "--labels=rayctl.io/group=head"):
            self.assertIn(wanted, head)
        base = dict(self.BASE, SLURM_JOB_ID="1", SLURM_CPUS_ON_NODE="6", SLURM_GPUS_ON_NODE="")
        worker = raystart.arguments(o, members.members(o)[2], "/tmp/r1", "/run", base, ports)
        for wanted in ("--address=10.0.0.1:1234", "--num-cpus=6", "--num-gpus=1", '--resources={"a": 1}', "--node-name=w-1"):
            self.assertIn(wanted, worker)
        o["groups"][1].update(objectSpillingDirectory="/disk/a b", objectStoreMemory=100, labels={"zone": "a", "b": "c"})
        worker = raystart.arguments(o, members.members(o)[2], "/tmp/r1", "/run", base, ports)
        for wanted in ("--object-spilling-directory=/disk/a b/r1", "--object-store-memory=100", "--labels=b=c,rayctl.io/group=w,zone=a"):
            self.assertIn(wanted, worker)
        self.assertFalse(raystart.is_recent("2.40.0"))
        self.assertTrue(raystart.is_recent("2.49.1") and raystart.is_recent(""))
        with self.assertRaises(IndexError):
            members.members(o)[3]

    def test_addresses(self):
        asked = []
        def own(network, several):
            asked.append((network, several))
            return "10.1.1.1"
        with unittest.mock.patch.object(addresses.address, "own", own):
            o = addresses.with_addresses({"advertise": "auto", "listen": "auto:0", "network": "ib0", "groups": [{"name": "head", "count": 1}]})
            self.assertEqual((o["advertise"], o["dashboardHost"], o["listen"]), ("10.1.1.1", "10.1.1.1", "10.1.1.1:0"))
            addresses.with_addresses(dict(orders(), advertise="auto", dashboardHost="127.0.0.1"))
            addresses.with_addresses({"advertise": "auto", "dashboardHost": "127.0.0.1", "groups": [{"name": "head", "count": 1}]})
        self.assertEqual(asked, [("ib0", True), ("", True), ("", False)])  # others are to reach it: clients, or nodes

    def test_last_line(self):
        with tempfile.NamedTemporaryFile("w") as f:
            for text, wanted in (("a\n\x1b[31mValueError: bad\x1b[0m\nsee the docs\n", "ValueError: bad"), ("a\nb\n\n", "b"), ("", ""),
                                 ("x\n\x1b[1mgcs_server\x1b[0m [exit code=-9]\n", ended.by_code("gcs_server", -9)),
                                 ("raylet [exit code=1]\ndashboard [exit code=-6]\nRemaining", "its raylet ended with exit code 1; its dashboard ended with exit code -6")):
                f.seek(0)
                f.truncate()
                f.write(text)
                f.flush()
                self.assertEqual(nodelogs.last_line(f.name), wanted)


if __name__ == "__main__":
    unittest.main()
