"""A keeper of an external cluster (KubeRay) that follows another."""

import json
import os
import sys
import socket
import struct
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from successors import COMMIT, LOG, Rig, noted, record, resumed


class Successor(Rig):
    def test_without_files_of_its_own(self):
        """A pod has what the Secret has: the commit, with packages and runtime environment."""
        first, _ = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        second = self.pod(commit=COMMIT)
        self.running(second)
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        self.assertEqual(self.ended(second)["exit"]["cause"], "succeeded")
        self.assertEqual(len(self.head.submissions), 1)

    def test_commit_that_comes_later(self):
        """A job on the head was committed. A keeper without the document takes it from the client, and uses it for the next attempt."""
        first, _ = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        run_dir = self.pod()
        second, _ = self.running(run_dir)
        with open(os.path.join(run_dir, "commit"), "w") as f:
            json.dump(COMMIT, f)
        self.head.known["n-1"] = record("FAILED", 3)
        self.until(run_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        self.assertEqual(self.head.submissions[1]["runtime_env"]["working_dir"], "gcs://_ray_pkg_0.zip")
        self.kill(second)

    def test_container_restarted(self):
        """The run directory has everything: the timeline goes on, and the output is there once."""
        run_dir = self.pod(commit=COMMIT)
        first, before = self.running(run_dir)
        self.until_file(os.path.join(run_dir, "driver.log"), LOG)
        self.kill(first)
        second = self.keeper(run_dir)
        self.until(run_dir, "state.json", resumed)
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        result = self.ended(run_dir)
        second.wait()
        self.goes_on(before, result)
        self.assertEqual(result["log"], {"bytes": len(LOG), "missing": []})
        with open(os.path.join(run_dir, "driver.log"), "rb") as f:
            self.assertEqual(f.read(), LOG)

    def test_other_pod(self):
        """The directory has what clients noted: the state document, without nodes."""
        first, before = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": dict(noted(before), nodes=None)})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", lambda d: resumed(d) and d["nodes"])
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        result = self.ended(run_dir)
        self.goes_on(before, result)
        self.assertEqual((result["log"]["bytes"], result["exit"]["cause"]), (len(LOG), "succeeded"))

    def goes_on(self, before, result):
        """The timeline begins with what it was, and nothing in it happens twice."""
        self.assertEqual(result["timeline"][:len(before["timeline"])], before["timeline"])
        events = [(e["event"], e["to"]) for e in result["timeline"]]
        self.assertEqual(len(events), len(set(events)), events)
        self.assertEqual((len(self.head.submissions), len(result["attempts"])), (1, 1))

    def test_before_the_gang(self):
        """The time of admission, and since when it was waited, stay."""
        self.head.complete = False
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["phase"] == "Starting" and d["committed"])
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": noted(before)})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", resumed)
        self.head.complete = True
        self.until(run_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        self.goes_on(before, self.ended(run_dir))

    def test_package_lost_with_the_pod(self):
        """Before the submission only the keeper's pod has the packages. Its next one waits for a client that has them, for as long as for a commit."""
        self.head.has_package, self.lease = False, 1
        run_dir = self.pod(commit=COMMIT)
        self.keeper(run_dir)
        end = self.ended(run_dir)["exit"]
        self.assertEqual((end["cause"], end["code"], end["retryable"], len(self.head.submissions)), ("lost", 76, True, 0))
        self.assertIn("was lost with the keeper", end["message"])

    def test_package_given_again(self):
        """It shows which packages it misses as soon as it follows another keeper, and goes on when they are there."""
        self.head.has_package, self.head.complete = False, False
        first_dir = self.pod(commit=COMMIT)
        first = self.keeper(first_dir)
        before = self.until(first_dir, "state.json", lambda d: d["phase"] == "Starting" and d["committed"])
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": before})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", lambda d: d.get("missingPackages") == ["package-0.zip"])
        self.head.complete = True
        self.until(run_dir, "state.json", lambda d: d["reason"]["code"] == "PackageMissing")
        with open(os.path.join(run_dir, "package-0.zip"), "wb") as f:
            f.write(b"zipped")
        running = self.until(run_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")
        self.assertEqual((running["missingPackages"], running["reason"]["code"], self.head.packages), ([], "", [b"zipped"]))

    def test_head_without_a_node(self):
        """Time counts as queued until the head's name has an address, which its pod has from its node: nothing is charged before."""
        run_dir = self.pod(commit=COMMIT)
        with open(os.path.join(run_dir, "orders.json")) as f:
            orders = json.load(f)
        for url, phase in (("http://no-such-name.invalid:8265", "Queued"), ("http://127.0.0.1:1", "Provisioning")):
            run_dir = self.pod(commit=COMMIT, **{"orders.json": dict(orders, start=dict(orders["start"], dashboard=url))})
            keeper = self.keeper(run_dir)
            self.until(run_dir, "state.json", lambda d: d["phase"] == phase and d["committed"])
            self.kill(keeper)

    def test_head_that_resets(self):
        """As the proxy of a mesh does with what is not of it. Nobody waits for that without a word."""
        proxy = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(proxy.close)

        def reset():
            while True:
                try:
                    connection = proxy.accept()[0]
                except OSError:
                    return
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        threading.Thread(target=reset, daemon=True).start()
        with open(os.path.join(self.pod(commit=COMMIT), "orders.json")) as f:
            orders = json.load(f)
        start = dict(orders["start"], dashboard="http://127.0.0.1:%d" % proxy.getsockname()[1])
        run_dir = self.pod(commit=COMMIT, **{"orders.json": dict(orders, start=start)})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", lambda d: d["phase"] == "Provisioning" and d["reason"]["code"] == "HeadResets")

    def test_while_it_ends(self):
        """An end that somebody has asked for stays one, also if the driver has not been submitted yet or is being stopped."""
        for job, submissions in ((False, 0), (True, 1)):
            with self.subTest(running=job):
                self.head.known.clear()
                self.head.submissions.clear()
                self.head.complete = job
                first_dir = self.pod(commit=COMMIT)
                first = self.keeper(first_dir)
                before = self.until(first_dir, "state.json", lambda d: d["committed"] and (not job or d["job"]["state"] == "RUNNING"))
                self.kill(first)
                ending = dict(before, phase="Draining", reason={"code": "down", "message": "somebody ended it"})
                second = self.pod(commit=COMMIT, **{"state.json": ending})
                self.head.complete = True
                self.keeper(second)
                result = self.ended(second)
                self.assertEqual((result["exit"]["cause"], result["exit"]["message"], len(self.head.submissions)), ("down", "somebody ended it", submissions))
                self.assertEqual(self.head.stops, submissions, "a running driver gets its grace")

    def test_driver_ended_with_the_keeper(self):
        """The driver's exit code was known already; the head need not be asked for it again."""
        first, before = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        ending = dict(before, phase="Draining", reason={"code": "driver-signaled", "message": "the driver was ended by SIGTERM"},
                      job=dict(before["job"], state="FAILED", exitCode=143, signal=15))
        self.head.known.clear()
        run_dir = self.pod(commit=COMMIT, **{"state.json": ending})
        self.keeper(run_dir)
        result = self.ended(run_dir)
        self.assertEqual((result["exit"]["origin"], result["exit"]["code"], result["exit"]["signal"]), ("driver", 143, 15))

    def test_restarts_are_counted_on(self):
        """The second attempt is the last one for the next keeper, too, and it has the output of the first."""
        first_dir = self.pod(commit=COMMIT)
        first, _ = self.running(first_dir)
        self.head.known["n-1"] = record("FAILED", 3)
        before = self.until(first_dir, "state.json", lambda d: d["attempt"] == 2 and d["job"]["state"] == "RUNNING")
        self.kill(first)
        run_dir = self.pod(commit=COMMIT, **{"state.json": before})
        self.keeper(run_dir)
        self.until(run_dir, "state.json", resumed)
        self.head.known["n-2"] = record("FAILED", 4)
        result = self.ended(run_dir)
        self.assertEqual([(a["attempt"], a["exitCode"]) for a in result["attempts"]], [(1, 3), (2, 4)])
        self.assertEqual((result["exit"]["code"], len(self.head.submissions)), (4, 2))
        with open(os.path.join(run_dir, "driver-1.log"), "rb") as f:
            self.assertEqual(f.read(), LOG)

    def test_head_restarted_before_its_nodes(self):
        """Nothing has run on the first head, so the second is as good."""
        self.head.complete = False
        run_dir = self.pod(commit=COMMIT)
        self.keeper(run_dir)
        self.until(run_dir, "state.json", lambda d: d["head"]["session"] == "session_1")
        self.head.session, self.head.complete = "session_2", True
        state = self.until(run_dir, "state.json", lambda d: d["job"]["state"] == "RUNNING")
        self.assertEqual(state["head"]["session"], "session_2")
        time.sleep(4)  # the keeper has looked again whether it is the same head (run/head/head.py, LOOK)
        self.head.known["n-1"] = record("SUCCEEDED", 0)
        self.assertEqual(self.ended(run_dir)["exit"]["cause"], "succeeded")

    def test_another_head(self):
        """A head that was lost with the keeper: the driver is not run twice."""
        first, before = self.running(self.pod(commit=COMMIT))
        self.kill(first)
        self.head.known.clear()
        self.head.session = "session_2"
        run_dir = self.pod(commit=COMMIT, **{"state.json": before})
        self.keeper(run_dir)
        result = self.ended(run_dir)
        self.assertEqual((result["exit"]["cause"], len(self.head.submissions)), ("lost", 1))
        self.assertIn("the head was restarted", result["exit"]["message"])


if __name__ == "__main__":
    unittest.main()
