"""Ports that are reserved for Ray's agents, and the file with the head's addresses. Run by `go test ./keeper` with every Python that the machine has."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(HERE))

from rayctl_keeper.host import headfile
from rayctl_keeper.rayhook import reserve

SHARE = os.path.join(os.path.dirname(HERE), "rayctl_keeper", "rayhook", "share_port.py")
STRANGER = 12346
AGENT = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    s.bind(("127.0.0.1", int(sys.argv[1].partition("=")[2])))
    s.listen()
    print("listens", sys.path[0], __name__)
except OSError as error:
    print(error.errno)
"""


@unittest.skipUnless(reserve.possible(), "only Linux keeps a shared port for one user")
class Reserve(unittest.TestCase):
    def setUp(self):
        self.addCleanup(reserve._held.clear)

    def agent(self, before, user=0):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            path = os.path.join(directory, "agent.py")
            with open(path, "w") as f:
                f.write(AGENT)
            arguments = [sys.executable] + before + [path, "--listen-port=%d" % reserve.port(reserve.AGENTS[0])]
            if user:
                arguments = [sys.executable, "-c", "import os, socket, sys; os.setuid(%d); exec(%r)" % (user, AGENT), arguments[-1]]
            out = subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout.decode().strip()
            return out.replace(directory, "DIR")

    def test_only_a_shared_socket_of_this_user_gets_the_port(self):
        changed = reserve.reserve(["start", "--head", "--%s=1" % reserve.AGENTS[0], "--port=0"], reserve.AGENTS)
        self.assertEqual(changed, ["start", "--head", "--%s=%d" % (reserve.AGENTS[0], reserve.port(reserve.AGENTS[0])), "--port=0"])
        self.assertEqual(self.agent([SHARE]), "listens DIR __main__")
        self.assertEqual(self.agent([]), "98")
        if os.getuid() == 0:
            self.assertEqual(self.agent([], STRANGER), "98")
        reserve.release()
        self.assertEqual(reserve.port(reserve.AGENTS[0]), 0)

    def test_command(self):
        programs = ["/r a/agent.py", "/r/main.py"]
        raylet = ["raylet", "--dashboard_agent_command=" + subprocess.list2cmdline(["py", "-u", programs[0], "--a=1"]),
                  "--runtime_env_agent_command=py -u /r/main.py --b=1", "--other=/r/main.py x"]
        self.assertEqual(reserve.shared(raylet, "/d/s.py", programs),
                         ["raylet", '--dashboard_agent_command=py -u /d/s.py "/r a/agent.py" --a=1', "--runtime_env_agent_command=py -u /d/s.py /r/main.py --b=1", raylet[3]])
        self.assertIsNone(reserve.shared(raylet[:2], "/d/s.py", programs))


class HeadFile(unittest.TestCase):
    def test_told_from_the_head_to_a_worker(self):
        with tempfile.TemporaryDirectory() as run:
            os.makedirs(os.path.join(run, "nodes"))
            headfile.write(headfile.path(run), 2)
            self.assertEqual(headfile.read(headfile.path(run), 2), {"round": 2})
            session = os.path.join(run, "t", "session_latest")
            os.makedirs(os.path.join(session, "logs"))
            with open(os.path.join(session, "gcs_server_port_abc"), "w") as f:
                f.write("4321")
            text = headfile.settings(run, "2", 3, "10.0.0.1", "127.0.0.1")
            head, worker = (headfile.take({headfile.VARIABLE: text}, ["start", "--temp-dir=" + os.path.join(run, "t")]) for _ in range(2))
            address = os.environ.get("RAY_ADDRESS")
            head.announce(77)
            self.assertEqual(worker.learn(60), "10.0.0.1:4321")
            self.assertNotIn("dashboard", headfile.read(headfile.path(run), 2))
            with open(os.path.join(session, "logs", "dashboard.log"), "w") as f:
                f.write("2026 INFO http_server_head.py:492 -- Dashboard head http address: 127.0.0.1:40001\n")
            while "dashboard" not in headfile.read(headfile.path(run), 2):
                pass
            self.assertEqual(headfile.read(headfile.path(run), 2), {"round": 2, "gcs": "10.0.0.1:4321", "dashboard": "127.0.0.1:40001", "client": 77})
            self.assertEqual(headfile.read(headfile.path(run), 3), {})
            os.environ.pop("RAY_ADDRESS")
            if address is not None:
                os.environ["RAY_ADDRESS"] = address

    def test_fixed_ports_need_no_file(self):
        self.assertIsNone(headfile.take({}, []))
        self.assertEqual(json.loads(headfile.settings("/r", 0, 1, "h", "d"))["place"], "/r/addresses")


if __name__ == "__main__":
    unittest.main()
