"""Ports and processes of a host. Run by `go test ./keeper` with every Python that the machine has."""

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

from rayctl_keeper.host import address, ports, process
from rayctl_keeper.state.document import wall


class Ports(unittest.TestCase):
    @unittest.skipUnless(sys.platform.startswith("linux"), "claims are abstract sockets")
    def test_chosen_by_one_process_only(self):
        few = range(ports.PORTS.stop, ports.PORTS.stop + 400)  # clusters that run meanwhile have none of these
        choose = "import sys; from rayctl_keeper.host import ports as p; p.PORTS = range(%d, %d); print(*p.free_ports('', 380), flush=True); sys.stdin.read()"
        other = subprocess.Popen([sys.executable, "-c", choose % (few.start, few.stop)], cwd=os.path.dirname(HERE),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with other, unittest.mock.patch.object(ports, "PORTS", few):
            theirs = {int(port) for port in other.stdout.readline().split()}
            ours = ports.free_ports("127.0.0.1", 3)
            self.assertFalse(theirs & set(ours + ports.free_ports("", 4)))
            with self.assertRaises(OSError):
                ports.free_ports("", 14)
            other.stdin.close()
            other.wait()
            self.assertEqual(len(ports.free_ports("", 14)), 14)


class Chosen(unittest.TestCase):
    def test_a_port_of_loopback(self):
        port = ports.choose("127.0.0.1", 0)
        self.assertIn(port, ports.PORTS)
        self.assertEqual(ports.choose("localhost", port), port)

    def test_a_port_that_is_shared_is_taken(self):
        with socket.socket() as other:
            if hasattr(socket, "SO_REUSEPORT"):
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            other.bind(("127.0.0.1", 0))
            other.listen(1)
            with self.assertRaises(OSError):
                ports.choose("127.0.0.1", other.getsockname()[1])


class Name(unittest.TestCase):
    def test_as_long_as_linux_allows(self):
        """getaddrinfo raises UnicodeError for it. The real name is the machine's, which a test leaves alone."""
        with unittest.mock.patch("socket.gethostname", return_value="h" * 64):
            self.assertEqual(address.by_name(), [])


class Processes(unittest.TestCase):
    def test_nothing_escapes(self):
        code = """if True:
            import os, subprocess, sys
            sys.path.insert(0, %r)
            from rayctl_keeper.host import process as p
            p.become_subreaper()
            env = dict(os.environ, MARK="here")
            subprocess.Popen(["sh", "-c", "(setsid sleep 1000 & ) ; exec sleep 1000"], env=env, start_new_session=True)
            while len(p.marked(b"MARK=here")) < 2: pass
            left, ended = p.kill_all([b"MARK=here"])
            print(sorted(left), len(p.marked(b"MARK=here")), sorted(ended.values()))
            """ % os.path.dirname(HERE)
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertTrue(out.startswith("[] 0 [-9"), out)

    @unittest.skipUnless(sys.platform.startswith("linux"), "there is no /proc")
    def test_a_changed_title(self):
        """Ray's agents write over their environment as they change their titles: here all of it, as a longer environment's beginning was seen to be in Ray 2.60."""
        code = """if True:
            import ctypes, os, sys, time
            kept = open(sys.argv[1]) if sys.argv[1] else None
            stat = open("/proc/self/stat").read().rpartition(")")[2].split()
            begin, end = int(stat[47]), int(stat[48])  # env_start, env_end: proc(5)
            ctypes.memset(begin, 0, end - begin)
            print("changed", flush=True)
            time.sleep(1000)
            """
        with tempfile.TemporaryDirectory() as directory:
            log = os.path.join(directory, "log")
            open(log, "w").close()
            for path, mark, found in ((log, directory, True), (log, directory[:-1], False), ("", directory, False)):
                child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, env=dict(os.environ, MARK=directory))
                try:
                    self.assertEqual(child.stdout.readline(), b"changed\n")
                    self.assertEqual(process.environ_of(child.pid).strip(b"\0"), b"")
                    self.assertEqual(child.pid in process.marked(b"MARK=" + os.fsencode(mark)), found)
                finally:
                    child.kill()
                    child.communicate()

    def test_a_script_does_not_go_on(self):
        """A shell whose command is killed before it runs no further one, however slowly they are killed."""
        code = """if True:
            import os, signal, subprocess, sys, time
            sys.path.insert(0, %r)
            from rayctl_keeper.host import process as p
            p.become_subreaper()
            script = subprocess.Popen(["sh", "-c", "sleep 1000; echo went on"])
            while len(p.descendants(os.getpid())) < 2: pass
            real = os.kill
            def kill(pid, number):
                if number == signal.SIGKILL and pid == script.pid:  # its command comes first
                    for child in p.descendants(pid): real(child, number)
                    time.sleep(0.5)
                real(pid, number)
            os.kill = kill
            left, ended = p.kill_all()
            print(sorted(left), set(ended.values()))  # a busy machine's shell may reap its command in the same wait that its stop interrupts
            """ % os.path.dirname(HERE)
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(out, "[] {-9}\n")

    def test_another_cluster_stays(self):
        """The keeper of a cluster that a driver launched has that cluster's mark, and what is below it may have none."""
        code = """if True:
            import os, subprocess, sys
            sys.path.insert(0, %r)
            from rayctl_keeper.host import process as p
            p.become_subreaper()
            os.environ["RAYCTL_MARK"] = "ours"
            others = subprocess.Popen(["sh", "-c", "env -u RAYCTL_MARK sleep 1000; :"], env=dict(os.environ, RAYCTL_MARK="others"), start_new_session=True)
            ours = subprocess.Popen(["sh", "-c", "sleep 1000; :"], env=dict(os.environ, RAYCTL_MARK="ours"), start_new_session=True)
            tree = lambda: {pid: parent for pid, (parent, _) in p.process_table().items()}
            while not {others.pid, ours.pid} <= set(tree().values()) or not p.of_another_cluster(others.pid): pass
            left, ended = p.kill_all()
            lives = others.pid in tree() and others.pid in tree().values()
            os.killpg(others.pid, 9)
            print(sorted(left), ours.pid in ended and others.pid not in ended, lives)
            """ % os.path.dirname(HERE)
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(out, "[] True True\n")

    def test_bell(self):
        bell = process.Bell()
        threading.Thread(target=bell.ring).start()
        self.assertEqual(bell.wait(30), [])
        begin = time.monotonic()
        bell.wait(0.01)
        self.assertGreaterEqual(time.monotonic() - begin, 0.009)

    def test_wall(self):
        self.assertEqual(wall(0.5), "1970-01-01T00:00:00.500Z")


if __name__ == "__main__":
    unittest.main()
