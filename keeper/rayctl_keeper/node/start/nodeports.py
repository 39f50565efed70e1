"""The ports on which the processes of one Ray node listen, beside the head's own, which the keeper chooses."""

from rayctl_keeper.host.portrange import Range
from rayctl_keeper.host.ports import free_ports
from rayctl_keeper.node.start import raystart

# A raylet waits for ports that its agents choose, but only 15 seconds, then it dies (Ray 2.60; there is no setting). It is alive sooner, too.
AGENTS = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port", "runtime-env-agent-port")
RAYLET = ("node-manager-port", "object-manager-port")
METRICS = ("DASHBOARD_METRIC_PORT", "AUTOSCALER_METRIC_PORT")  # of the head's dashboard and autoscaler; variables: there are no options
FIXED = len(AGENTS) + len(RAYLET) + len(METRICS)
# Each worker process and each driver listens on one port, actors without CPUs, too. slurm/slurmspec/network.go has the least, too.
LEAST, LEAST_BY_CPU = 16, 2
MOST, MOST_BY_CPU = 64, 8


class Ports:
    """Those of one supervisor's node."""

    def __init__(self, orders, member, environ):
        self.recent = raystart.is_recent(orders["ray"].get("version"))
        self.range, self.metrics = None, []
        if orders.get("ports"):
            cpus = raystart.cpus_of(member.group, environ)
            self.range = Range(orders["ports"], FIXED + LEAST + LEAST_BY_CPU * cpus, FIXED + MOST + MOST_BY_CPU * cpus)

    def choose(self):
        """Options of `ray start` and their values, for one start."""
        if self.range is None:
            agents = free_ports("", len(AGENTS)) if self.recent else [0, 0]
            self.metrics = [0, 0]  # any free one; the autoscaler's own would be fixed
            return dict(zip(AGENTS, agents), **{"min-worker-port": 0, "max-worker-port": 0})
        fixed = self.range.take("", FIXED)
        self.metrics = fixed[-len(METRICS):]
        return dict(zip(AGENTS + RAYLET, fixed), **{"worker-port-list": ",".join(map(str, self.range.others(fixed)))})

    def variables(self):
        """The environment for ports that have no option: ray/dashboard/consts.py (Ray 2.9 to 2.60), ray/autoscaler/_private/constants.py."""
        return {name: str(port) for name, port in zip(METRICS, self.metrics) if port or name.startswith("AUTO")}
