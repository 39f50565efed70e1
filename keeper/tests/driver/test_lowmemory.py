"""If Ray's memory monitor killed the supervisor of the driver's job, the message of the end has that cause. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.driver import rayjob

# Ray's own words on a machine whose threshold was set low, shortened; and those of Ray 2.49.
NEW = ("Unexpected error occurred: 1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 192.0.2.2, ID: 38) was 7.67GB used"
       " / 23.54GB limit (0.325958)\nOOM kill reason: Memory usage 8148992000B exceeded threshold of 8088483328B\nRefer to the documentation on how to address")
OLD = ("Unexpected error occurred: Task was killed due to the node running low on memory.\nMemory on the node (IP: 192.0.2.2, ID: 38) where the task (actor ID: 1)"
       " was running was 7.67GB / 23.54GB (0.325958), which exceeds the memory usage threshold of 0.32. Refer to the documentation")


def outcome(message, node, **more):
    return rayjob.outcome({"status": "FAILED", "message": message, "error_type": "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "driver_node_id": node}, **more)


class LowMemory(unittest.TestCase):
    def test_driver(self):
        for words in (NEW, OLD):
            end = outcome(words, "n")
            self.assertEqual((end.cause, end.driver), ("driver-signaled", (137, 9)))
            self.assertIn("ended by SIGKILL; Ray kills when a node's memory is nearly full: 7.67GB of 23.54GB were used", end.message)

    def test_prepare(self):
        self.assertEqual(outcome(NEW, "n", preparing=True).cause, "prepare-failed")

    def test_before_it_began(self):
        end = outcome(NEW, None)
        self.assertEqual(end.cause, "submit-failed")
        self.assertIn("the driver did not start: 7.67GB of 23.54GB", end.message)


if __name__ == "__main__":
    unittest.main()
