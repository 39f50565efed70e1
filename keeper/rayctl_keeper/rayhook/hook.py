"""Runs inside `ray start` (RAY_START_HOOK), on all launchers, after its slow imports and before it starts anything. It changes these things:

- The head's dashboard does not query the cloud metadata address. That request is made in the dashboard's event loop and stops
  every answer for 5 to 12 seconds on machines that drop such packets, whatever the usage settings are. The dashboard skips
  it if ~/ray_bootstrap_config.yaml exists, so the dashboard, and only the dashboard, gets a HOME with that file.
- The head starts its raylet while the dashboard is importing, and waits for the dashboard after that instead of before.
- The head's Ray client server starts last (it looks for the raylet for 30 seconds, gives up, and takes the head with it), and where there
  is a job some seconds after its driver, whose start its second of processor time would delay.
- A raylet waits 15 seconds for a file with its agent's port, then dies; a host under load needs longer to import the agent.
  The port is chosen by us, so the file is written before the raylet starts, which makes the node ALIVE sooner, too.
- `ray start` waits longer than 30 seconds for a raylet that lives, and not at all for one that does not.
- `ray start` looks whether the dashboard's packages are there instead of importing them all, for nothing but that.
- The dashboard agent of a worker node that is no pod begins some seconds after its raylet, see lateagent.py.
- A worker waits for the head's GCS here, so that importing Ray (a second of processor time) overlaps with the head's start.
- The dashboard, whose children are started by `python -c`, and the Ray client server, which is started by `python -m`, have an empty
  current directory: from the user's they would import a grpc.py or test.py of his, and Ray would not start. Drivers and workers have the user's.
- The Ray client server has no fork handlers of gRPC's, of which servers for clients die (see FORK_HANDLERS in headstart.py).
- On SIGTERM in a pod the node is drained only where the cluster stays, see leave.py.
- As the first process of a pod it waits for orphans, too: Ray takes zombies for living processes, and when it stops a driver below a
  shell it would wait for them as long as it may.

All of it is left out where Ray has other functions than expected: then Ray starts as it always did.
"""

import importlib
import importlib.util
import os
import threading
import time

from rayctl_keeper.rayhook import headstart, lateagent, leave, start

RAYLET_WAIT = 120.0  # seconds
REAP_EVERY = 0.1  # seconds
# What ray/dashboard/optional_deps.py imports (Ray 2.60).
DASHBOARD_PACKAGES = (
    "aiohttp", "aiohttp_cors", "grpc", "opencensus", "opentelemetry.exporter.prometheus", "opentelemetry.proto", "prometheus_client", "pydantic",
)


def prepare(ray_params, head):
    """Called by ray start with its parameters."""
    _restore_environment()
    _be_patient()
    _look_for_packages()
    if os.getpid() == 1:
        _reap_orphans()
    if leave.active() or leave.tells():
        _look_before_draining()
    if head:
        _name_gcs()
        headstart.change(os.path.join(os.environ["RAYCTL_NODE_DIR"], "home"), bool(os.environ.get("RAYCTL_JOB")))
    else:
        if not leave.active() and os.getpid() != 1:
            lateagent.change(os.environ["RAYCTL_NODE_DIR"])
        start.wait_for_gcs(os.environ.get("RAYCTL_GCS", ""), float(os.environ.get("RAYCTL_GCS_WAIT", "600")))
    for name in ("RAYCTL_GCS", "RAYCTL_GCS_WAIT", "RAYCTL_JOB"):
        os.environ.pop(name, None)
    module, _, users = os.environ.get("RAY_START_HOOK", "").rpartition(".")
    if users:
        getattr(importlib.import_module(module), users)(ray_params, head)


def _restore_environment():
    os.environ.pop("RAY_START_HOOK", None)
    users = os.environ.pop("RAYCTL_USER_START_HOOK", "")
    if users:
        os.environ["RAY_START_HOOK"] = users


def _be_patient():
    try:
        from ray._private import services
        from ray._private.node import Node
        get_node, start_raylet = services.get_node, Node.start_raylet
    except (ImportError, AttributeError):
        return
    raylet = []

    def announce_and_start(self, *args, **kwargs):
        _announce_agent(self)
        start_raylet(self, *args, **kwargs)
        raylet.extend(info.process for info in self.all_processes.get("raylet", ()))

    def wait_for_node(*args, **kwargs):
        until = time.monotonic() + RAYLET_WAIT
        while True:
            try:
                return get_node(*args, **kwargs)
            except RuntimeError:  # the raylet is not registered yet
                if raylet and raylet[0].poll() is not None:
                    raise Exception("the raylet ended with exit code %s while it started" % raylet[0].returncode)
                if time.monotonic() > until:
                    raise
            time.sleep(0.1)

    Node.start_raylet = announce_and_start
    services.get_node = wait_for_node


def _name_gcs():
    """What the head starts after its GCS finds it by RAY_ADDRESS, although the GCS chooses its port itself: see raystart.environment."""
    try:
        from ray._private.node import Node
        start_gcs, _ = Node.start_gcs_server, Node.gcs_address
    except (ImportError, AttributeError):
        return

    def start_and_name(self, *args, **kwargs):
        start_gcs(self, *args, **kwargs)
        if os.environ.get("RAY_ADDRESS") == "":
            os.environ["RAY_ADDRESS"] = self.gcs_address

    Node.start_gcs_server = start_and_name


def _look_before_draining():
    try:
        from ray._private import ray_constants
        from ray._private.node import Node
    except ImportError:
        return
    leave.change(Node, ray_constants)


def _look_for_packages():
    try:
        from ray._private import utils
        import_them = utils.get_dashboard_dependency_error
    except (ImportError, AttributeError):
        return

    def look():
        try:
            if all(importlib.util.find_spec(name) for name in DASHBOARD_PACKAGES):
                return None
        except (ImportError, ValueError):
            pass
        return import_them()

    utils.get_dashboard_dependency_error = look


def _announce_agent(node):
    port = getattr(node._ray_params, "dashboard_agent_listen_port", 0)
    try:
        from ray._raylet import DASHBOARD_AGENT_LISTEN_PORT_NAME, persist_port
        if port:
            persist_port(node.get_session_dir_path(), node.node_id, DASHBOARD_AGENT_LISTEN_PORT_NAME, port)
    except (ImportError, AttributeError):
        pass  # a Ray whose raylet does not wait for such a file


def _reap_orphans():
    try:
        from ray._private import services
        spawn = services.start_ray_process
    except (ImportError, AttributeError):
        return
    own = set()

    def remember(*args, **kwargs):
        info = spawn(*args, **kwargs)
        own.add(info.process.pid)
        return info

    services.start_ray_process = remember
    threading.Thread(target=_reap, args=(own,), daemon=True).start()


def _reap(own):
    seen = None
    while True:
        time.sleep(REAP_EVERY)
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            # The code that started it may be about to call waitpid itself: reaped only when it is still a zombie one interval later.
            if dead and dead.si_pid == seen and seen not in own:
                os.waitpid(seen, os.WNOHANG)
        except ChildProcessError:
            dead = None
        seen = dead.si_pid if dead else None
