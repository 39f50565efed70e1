"""Nodes that somebody else starts and ends, such as KubeRay."""

from rayctl_keeper.node.files import raytoken
from rayctl_keeper.run.nodes.common import Nodes


class External(Nodes):
    """Somebody else's nodes: there is nothing to start and nothing to end."""

    external = True

    def __init__(self, orders, run_dir, bell, log):
        super().__init__(orders, run_dir, bell, log)
        self.head_apart = bool(orders["start"].get("early"))
        self.held = bool(orders["start"].get("held"))

    def granted_as(self):
        return "RayCluster " + self.orders["name"], None

    def start(self):
        """Takes the addresses from the orders."""
        start = self.orders["start"]
        self.gcs, self.dashboard = start.get("gcs") or "", start["dashboard"].rstrip("/")
        self.client_port = 10001
        self.token = raytoken.keepers(self.run_dir)  # the cluster's Secret has one for both

    def token_file(self):
        return ""

    def stop(self, limit=0.0):
        self.round += 1
