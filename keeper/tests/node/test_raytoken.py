"""Ray's token. Run by `go test ./keeper` with every Python that the machine has."""

import os
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from rayctl_keeper.node.files import raytoken
from rayctl_keeper.run.nodes.common import Nodes


class RayToken(unittest.TestCase):
    def test_each_round_has_its_own(self):
        with tempfile.TemporaryDirectory() as run_dir:
            orders = {"groups": [{"name": "head", "count": 1}], "advertise": "127.0.0.1", "dashboardHost": "127.0.0.1"}
            nodes, seen = Nodes(orders, run_dir, None, None), set()
            for _ in range(3):
                nodes.choose_addresses()
                place = os.path.join(run_dir, nodes.token_file())
                with open(place) as f:
                    self.assertEqual(f.read(), nodes.token)
                self.assertEqual((len(nodes.token), os.stat(place).st_mode & 0o777), (64, 0o600))
                seen.add(nodes.token)
                nodes.round += 1
            self.assertEqual((len(seen), sorted(os.listdir(run_dir))), (3, ["addresses", "ray-token.2"]))

    def test_a_full_disk_has_room_for_the_next(self):
        with tempfile.TemporaryDirectory() as run_dir:
            first = raytoken.make(run_dir, 0)
            with unittest.mock.patch.object(raytoken, "write_from_reserve", side_effect=OSError("no space left")):
                second = raytoken.make(run_dir, 1)
            self.assertEqual(os.listdir(run_dir), ["ray-token.1"])
            with open(raytoken.path(run_dir, 1)) as f:
                self.assertEqual(f.read(), second)
            self.assertNotEqual(first, second)
            self.assertEqual(os.stat(raytoken.path(run_dir, 1)).st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
