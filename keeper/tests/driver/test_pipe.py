import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from rayctl_keeper.driver import pipe
from rayctl_keeper.driver.log import DriverLog
from rayctl_keeper.host import process
from sample import HOSTILE

SLOW = "import os, signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('ready', flush=True); time.sleep(60)"


class Pipe(unittest.TestCase):
    """The command line as Ray starts it: by sh, in a session of its own, with Ray's log of the job as stdout and stderr."""

    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.top, self.log = top.name, os.path.join(top.name, "log")
        os.symlink(sys.executable, os.path.join(top.name, "python3"))

    def begin(self, command, line=None, **env):
        env = dict({**os.environ, "PATH": self.top + ":" + os.environ["PATH"], "TEST_PIPE": self.top}, **env)
        env.update(pipe.variables(command))
        with open(self.log, "ab") as log:
            log.write(b"Ray's\n")
            log.flush()
            return subprocess.Popen(line or pipe.through(command), shell=True, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def written(self, command, code=0, **env):
        self.assertEqual(self.begin(command, **env).wait(), code)
        return self.text()

    def text(self):
        with open(self.log, "rb") as log:
            return log.read().partition(b"Ray's\n")[2]

    def test_nothing_is_truncated(self):
        """A driver that truncates its log loses no output."""
        text = self.written("echo a; echo warn > /dev/stderr; : > /dev/stdout; echo b >&2; echo c; : > /proc/self/fd/1")
        self.assertEqual(text, b"a\nwarn\nb\nc\n")

    def test_a_replaced_log(self):
        """Programs that rotate logs move the log away. The keeper reads by the name that the log has beside the directory of logs, and loses nothing."""
        logs = os.path.join(self.top, "t", "session_2026", "logs")
        os.makedirs(logs)
        self.log = os.path.join(logs, "job-driver-x-1.log")
        log = DriverLog(self.top, lambda: None, lambda text: None)
        process = self.begin("echo a; mv %s %s.1; : > %s; echo b" % (self.log, self.log, self.log))
        self.assertEqual(process.wait(), 0)
        log.begin("job-driver-x-1.log", "id", [self.top], stream=False)
        log.finish(False, ended=True)
        log.close()
        with open(os.path.join(self.top, "driver.log"), "rb") as f:
            self.assertEqual(f.read(), b"Ray's\na\nb\n")
        self.assertEqual(log.document()["missing"], [])

    def test_the_command_is_the_same(self):
        self.assertEqual(self.written("printf %s " + "'" + HOSTILE.replace("'", "'\\''") + "'"), HOSTILE.encode())
        self.assertEqual(self.written("\n\necho 1 # \nexit 3\n", 3), (HOSTILE + "Ray's\n1\n").encode())

    def test_the_title_runs_nothing(self):
        for users in HOSTILE, "echo 2 \\", "echo '2", "echo $(echo 2) \\\r\necho 3":
            for variables in {}, {"RAYCTL_PIPE": ""}:
                if os.path.exists(self.log):
                    os.unlink(self.log)
                env = dict(os.environ, **dict(pipe.variables("echo 1"), **variables))
                with open(self.log, "wb") as log:
                    self.assertEqual(subprocess.call(pipe.through("echo 1", users), shell=True, env=env, stdout=log, stderr=log, start_new_session=True), 0)
                with open(self.log, "rb") as log:
                    self.assertEqual(log.read(), b"1\n")

    def test_environment(self):
        bare = {"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}
        direct = self.begin("", "unset LC_ALL LC_CTYPE LANG RAYCTL_PIPE RAYCTL_COMMAND; env | sort")
        direct.wait()
        before = self.text()
        os.unlink(self.log)
        line = "unset LC_ALL LC_CTYPE LANG\n" + pipe.through("env | sort")
        self.begin("env | sort", line, **bare).wait()
        self.assertEqual(self.text(), before)
        self.assertEqual(pipe.without(pipe.through("a")), "a")

    def test_much(self):
        text = self.written("head -c 10000000 /dev/zero; echo; i=0; while [ $i -lt 2000 ]; do echo $i; echo e >&2; i=$((i+1)); done")
        self.assertEqual(text, bytes(10000000) + b"\n" + b"".join(b"%d\ne\n" % i for i in range(2000)))

    def test_ends_by_signal(self):
        self.assertEqual(self.written("echo x; kill -9 $$", -9), b"x\n")
        self.assertEqual(self.written("kill -TERM $$", -15), b"x\nRay's\n")
        # SIGPIPE is not ignored, as Python has it
        self.assertEqual(self.written("kill -PIPE $$", -13), b"x\nRay's\nRay's\n")

    def test_stopped(self):
        driver = self.begin("exec python3 -c \"%s\"" % SLOW)
        while b"ready" not in self.text():
            self.assertIsNone(driver.poll())
        os.killpg(driver.pid, signal.SIGTERM)  # as Ray does to each process of the job
        self.assertEqual(driver.wait(), 7)

    def copier(self, driver):
        pids = [pid for pid in process.marked(b"TEST_PIPE=" + os.fsencode(self.top)) if os.getsid(pid) != driver.pid]
        self.assertEqual(len(pids), 1)
        self.assertTrue(process.leads_session(driver.pid) and not process.leads_session(pids[0]))  # rayjob.find_driver
        return pids[0]

    @unittest.skipUnless(process.LINUX, "the copier is found in /proc")
    def test_killed(self):
        """What a driver wrote before Ray killed it comes into the log, also if its copier had no time until then."""
        go, gone = os.path.join(self.top, "go"), os.path.join(self.top, "gone")
        os.mkfifo(go)
        os.mkfifo(gone)
        driver = self.begin("read x < %s; head -c 200000 /dev/zero; : > %s; exec sleep 60" % (go, gone))
        with open(go, "w"):
            copier = self.copier(driver)
            os.kill(copier, signal.SIGSTOP)
        with open(gone):  # opens once it has written
            pass
        os.killpg(driver.pid, signal.SIGKILL)
        self.assertEqual(driver.wait(), -9)
        with open(self.log, "rb") as log:
            with self.assertRaises(BlockingIOError):
                fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.kill(copier, signal.SIGCONT)
            fcntl.flock(log, fcntl.LOCK_SH)
        self.assertEqual(self.text(), bytes(200000))

    @unittest.skipUnless(process.LINUX, "the copier is found in /proc")
    def test_copier_killed(self):
        go = os.path.join(self.top, "go")
        os.mkfifo(go)
        driver = self.begin("read x < %s; head -c 2000000 /dev/zero; exit 3" % go)
        with open(go, "w"):
            os.kill(self.copier(driver), signal.SIGKILL)
        self.assertEqual(driver.wait(), 3)
        self.assertEqual(self.text(), bytes(2000000))

    def test_what_is_left_running(self):
        """It is not waited for, and may go on writing."""
        go, gone = os.path.join(self.top, "go"), os.path.join(self.top, "gone")
        os.mkfifo(go)
        os.mkfifo(gone)
        command = "(read x < %s; echo late; read x < %s) & echo early" % (go, gone)
        self.assertEqual(self.written(command), b"early\n")
        with open(go, "w"):
            pass
        with open(gone, "w"):  # opens once it has written
            pass
        while self.text() != b"early\nlate\n":
            pass

    def test_left_running_writes_for_ever(self):
        driver = self.begin("yes & echo $!; kill -9 $$")
        self.assertEqual(driver.wait(), -9)
        os.killpg(driver.pid, signal.SIGKILL)

    def test_without_python(self):
        where = os.path.join(self.top, "none")
        os.mkdir(where)
        self.assertEqual(self.written("echo a; exit 4", 4, PATH=where), b"a\n")

    def test_full_disk(self):
        """The driver goes on, and what is lost is noted."""
        with open("/dev/full", "wb") as full:
            env = dict(os.environ, PATH=self.top + ":" + os.environ["PATH"], **pipe.variables("echo a; exit 5"))
            self.assertEqual(subprocess.call(pipe.through("echo a; exit 5"), shell=True, env=env, stdout=full, stderr=full), 5)

    def test_too_long(self):
        long = "#" + "x" * pipe.LONGEST
        self.assertEqual((pipe.through(long), pipe.through("")), (long, ""))

    def test_the_program_needs_no_quoting(self):
        line = pipe.variables("")["RAYCTL_PIPE"]
        self.assertFalse(set("'$`") & set(line))
        self.assertEqual(line.count("\\"), line.count('"') - 2)


if __name__ == "__main__":
    unittest.main()
