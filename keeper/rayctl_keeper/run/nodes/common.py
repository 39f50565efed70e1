"""What all modes of nodes share, as the keeper sees them."""

import json
import os
import subprocess

from rayctl_keeper.host import descriptors, headfile, process
from rayctl_keeper.host.portrange import Range
from rayctl_keeper.host.ports import free_ports
from rayctl_keeper.node.files import nodedir, raytoken, rest
from rayctl_keeper.node.gpus import measuring
from rayctl_keeper.node.groups import members
from rayctl_keeper.run.nodes.addresses import join
from rayctl_keeper.state.model import AllocationState

# What has become of the allocation that holds the nodes: it is as it was, the substrate has taken it back and starts the run again, or it has ended.
RUNS, AGAIN, OVER = "runs", "again", "over"
LEAST_PORTS, MOST_PORTS = 4, 8  # of the API, the GCS, the dashboard and Ray's client server, and in their stead when the cluster starts again


class Nodes:
    """What the modes share: addresses, supervisors' reports, and names."""

    external = queued = False
    signals_follow = False  # whoever ends the nodes by a signal sends it to the keeper, too, perhaps a moment later
    held = False  # a queueing system admits all nodes as a whole, and may take them back and admit them again
    head_apart = False  # the head has an allocation of its own, before the others
    gang = None  # the job of an early head's gang, where one is separate (slurm)
    companions = None  # who asks for further jobs of a batch system (slurm/companions/companions.py)

    def __init__(self, orders, run_dir, bell, log):
        self.orders, self.run_dir, self.bell, self.log = orders, run_dir, bell, log
        self.members = members.members(orders)
        self.extra = {}  # those that Ray's autoscaler asked for, by name
        self.round = 0  # restarts of the whole cluster
        self.children = {}  # pid -> (Popen, name)
        self.gcs = self.dashboard = ""  # of the present head, see find_head
        self.token = ""  # Ray's, of this round
        self.env = {}  # of supervisors
        self.client_port = 0
        self.range = None  # of the keeper's and the head's ports, where the orders have one

    def free_ports(self, host, count):
        """Free ports on this host, of the orders' range if they have one."""
        if not self.orders.get("ports"):
            return free_ports(host, count)
        self.range = self.range or Range(self.orders["ports"], LEAST_PORTS, MOST_PORTS)
        return self.range.take(host, count)

    def api_address(self):
        """Where the keeper's API listens; port 0 is any free one."""
        host, _, port = self.orders["listen"].rpartition(":")
        if self.orders.get("ports") and port == "0":
            port = self.free_ports(host.strip("[]"), 1)[0]
        return "%s:%s" % (host, port)

    def all(self):
        """All nodes that are there or on their way."""
        return self.members + list(self.extra.values())

    def add(self, member):
        """Starts one more node, or one that was lost again."""
        if member.beyond:
            self.extra[member.name] = member
        else:
            self.members = [member if m.name == member.name else m for m in self.members]
        self.start_one(member)

    def granted_as(self):
        """The substrate's name for what holds all nodes, or an early head, "" if it has none; and since when it does, in epoch seconds, None: since now."""
        return "", None

    def taken(self):
        """Whether the substrate has taken the allocation back: AGAIN or OVER. "": it has not, or that is not known."""
        return ""

    def warned(self):
        """For a warning that the keeper got: its cause, the end of the allocation by its time limit in epoch seconds, and the seconds of that limit. None: not known."""
        return None

    def confirm(self):
        """Before something that must not be done twice. Raises Detached where another keeper has taken over."""

    def last_words(self):
        """What the command that starts the nodes has said last of why it failed; "" if nothing, or where there is none."""
        return ""

    def unanswered(self):
        """Whether that command has failed because the batch system's controller did not answer: then it may be tried again."""
        return False

    def start_gang(self, _serial):
        """The head, which is an early one, is alive: asks for the others, unless all start at once."""

    def gang_standing(self):
        """For nodes that were asked for so: queued or granted, the substrate's reason and its sentence, and whether that never changes. None: there is nothing to
        wait for."""
        return None

    def gang_leaves(self):
        """When these nodes are going to be taken away, in epoch seconds, and the cause of that end, where the substrate has warned of it. Else None."""
        return None

    def confirm_gang(self):
        """Looks whether what holds these nodes is being taken away; returns whether it seems so."""
        return False

    def start_one(self, member):
        """Starts a node of a living cluster; started() follows when all that are wanted at the moment have been."""
        raise NotImplementedError

    def started(self):
        """Those that were started by add() are all for now."""

    def remove(self, member):
        """Ends one node, without waiting."""
        raise NotImplementedError

    def address(self, _member):
        """Where the node is, "" if that is not known yet."""
        return self.orders["advertise"]

    def choose_addresses(self):
        """Makes Ray's token of this round, and picks the head's ports on this host where they must be in a range; elsewhere GCS and dashboard choose theirs when
        they bind them, because a port that is known before can be bound by another user. Returns the supervisors' environment."""
        host, dashboard_host = self.orders["advertise"], self.orders["dashboardHost"]
        self.token = raytoken.make(self.run_dir, self.round)
        ranged = bool(self.orders.get("ports"))
        gcs, dashboard, self.client_port = self.free_ports(dashboard_host, 3) if ranged else [0, 0] + self.free_ports(dashboard_host, 1)
        self.gcs = join(host, gcs) if ranged else ""
        self.dashboard = "http://" + join(dashboard_host, dashboard) if ranged else ""
        if not ranged:
            headfile.write(headfile.path(self.run_dir), self.round)
        return dict(os.environ, RAYCTL_GCS=join(host, gcs), RAYCTL_DASHBOARD=join(dashboard_host, dashboard),
                    RAYCTL_CLIENT_PORT=str(self.client_port), RAYCTL_NODE_IP=host, RAYCTL_ROUND=str(self.round))

    def token_file(self):
        """The name of the file with Ray's token in the run directory; "": it is the keeper's."""
        return raytoken.name(self.round)

    def find_head(self):
        """Whether it is known where the head's GCS and dashboard listen."""
        if not self.dashboard:
            found = headfile.read(headfile.path(self.run_dir), self.round)
            if found.get("dashboard"):
                self.gcs, self.dashboard = found["gcs"], "http://" + found["dashboard"]
                self.client_port = found.get("client") or self.client_port
                self.env["RAYCTL_GCS"] = self.gcs  # of nodes that start later
        return bool(self.dashboard)

    def report(self, _member):
        """The last report of the node's supervisor in this round, {} if there is none."""
        return {}

    def reported(self, member):
        """The report in the supervisor's file."""
        try:
            with open(os.path.join(self.run_dir, "nodes", member.name, "report.json")) as f:
                report = json.load(f)
        except (OSError, ValueError):
            return {}
        return report if (report.get("round"), report.get("serial")) == (self.round, member.serial) else {}

    def gpus(self, member):
        """What its supervisor has measured last; {}: nothing yet."""
        try:
            with open(os.path.join(self.run_dir, "nodes", member.name, measuring.FILE)) as f:
                report = json.load(f)
        except (OSError, ValueError):
            return {}
        return report["gpus"] if (report.get("round"), report.get("serial")) == (self.round, member.serial) else {}

    def standing(self, _member):
        """Whether a node that Ray's autoscaler asked for is queued or granted, the reason, and when it is expected to start. None: it has ended."""
        return AllocationState.GRANTED, "", None

    def drain(self, _member):
        """The moment by which a node that Ray's autoscaler asked for must be empty, and why, when that is near: it ends before the cluster. Else None."""
        return None

    def ended(self, codes):
        """Takes {pid: code} of dead children; returns [(name, code)] of those that were ours."""
        return [(self.children.pop(pid)[1], code) for pid, code in codes.items() if pid in self.children]

    def pid_of(self, member):
        """Pid of the node's supervisor where it is our child, else 0."""
        return next((pid for pid, (_, name) in self.children.items() if name == member.name), 0)

    def head_runs(self):
        """Whether the head's supervisor is there, which ends together with any process of Ray's."""
        return False

    def directories(self):
        """Temporary directories of nodes on this host."""
        found = []
        for member in self.all():
            directory = self.report(member).get("directory")
            if directory and os.path.isdir(directory):
                found.append(directory)
        return found

    def launch(self, argv, name, env, stdin, stdout=None, stderr=None):
        """Starts a child in a session of its own; its output goes to keeper.log, except for what stdout and stderr say."""
        out = os.open(os.path.join(self.run_dir, "keeper.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            child = subprocess.Popen(descriptors.as_given(argv, env), stdin=stdin, stdout=out if stdout is None else stdout, stderr=out if stderr is None else stderr, env=env, start_new_session=True)
        finally:
            os.close(out)
        self.children[child.pid] = (child, name)
        return child

    def end_here(self):
        """Kills what still runs of nodes on this host, and removes their directories. Returns the pids of what cannot be killed, and exit codes."""
        directories = self.directories()
        markers = [b"RAYCTL_NODE_DIR=" + os.fsencode(d) for d in directories]
        rest.drain(markers)
        left, codes = process.kill_all(markers)
        for directory in directories:
            nodedir.remove(directory)
        return left, codes

    def stop(self, limit=8.0):
        """Ends all nodes and returns when nothing of them is left on this host."""
        self.ask_to_stop()
        until = process.time.monotonic() + limit
        while self.children and process.time.monotonic() < until:
            self.bell.wait(min(0.5, until - process.time.monotonic()))
            self.ended(process.reap())
        left, codes = self.end_here()
        self.ended(codes)
        if left:
            self.log("processes %s cannot be killed" % sorted(left))
        self.extra.clear()
        self.round += 1

    def close(self):
        """The end begins: nodes that wait for their start are not started."""

    def ask_to_stop(self):
        """Requests the supervisors to end, without waiting."""

    def release(self):
        """Frees what is held across rounds, such as a queue's slot. Called last."""
