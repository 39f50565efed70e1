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
- A worker process with a runtime environment is started by a program of ours that does not import Ray, see setup_worker.py.
- A worker waits for the head's GCS here, so that importing Ray (a second of processor time) overlaps with the head's start.
- The dashboard, whose children are started by `python -c`, and the Ray client server, which is started by `python -m`, have an empty
  current directory: from the user's they would import a grpc.py or test.py of his, and Ray would not start. Drivers and workers have the user's.
- The Ray client server has no fork handlers of gRPC's, of which servers for clients die (see FORK_HANDLERS).
- On SIGTERM in a pod the node is drained only where the cluster stays, see leave.py.
- As the first process of a pod it waits for orphans, too: Ray takes zombies for living processes, and when it stops a driver below a
  shell it would wait for them as long as it may.

All of it is left out where Ray has other functions than expected: then Ray starts as it always did.
"""

import contextlib
import copy
import importlib
import importlib.util
import inspect
import os
import pkgutil
import threading
import time

from rayctl_keeper.rayhook import leave, setup_worker, start

RAYLET_WAIT = 120.0  # seconds
DRIVER_FIRST = 5.0  # seconds from a job's submission to the start of the Ray client server
REAP_EVERY = 0.1  # seconds
# For the process that starts a server for each client of ray://. It forks only to run another program; gRPC's handlers of forks run meanwhile among its
# threads, and on a busy machine one such child of six dies before that program begins ("Starting Ray client server failed", Ray 2.60 without rayctl: 2 of 12
# clients; without the handlers 0 of 42).
FORK_HANDLERS = "GRPC_ENABLE_FORK_SUPPORT"
# What ray/dashboard/optional_deps.py imports (Ray 2.60).
DASHBOARD_PACKAGES = (
    "aiohttp", "aiohttp_cors", "grpc", "opencensus", "opentelemetry.exporter.prometheus", "opentelemetry.proto", "prometheus_client", "pydantic",
)


def prepare(ray_params, head):
    """Called by ray start with its parameters."""
    _restore_environment()
    _be_patient()
    _look_for_packages()
    _set_up_workers(ray_params, os.environ["RAYCTL_NODE_DIR"])
    if os.getpid() == 1:
        _reap_orphans()
    if leave.active():
        _look_before_draining()
    if head:
        _change_head(os.path.join(os.environ["RAYCTL_NODE_DIR"], "home"), bool(os.environ.get("RAYCTL_JOB")))
    else:
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


def _set_up_workers(ray_params, directory):
    try:
        from ray._private.runtime_env.context import RuntimeEnvContext
        known = inspect.signature(RuntimeEnvContext.__init__).parameters
    except (ImportError, AttributeError):
        return
    if set(known) - {"self"} != set(setup_worker.KNOWN) or not hasattr(ray_params, "setup_worker_path"):
        return
    path = os.path.join(directory, "setup_worker.py")  # by this name the raylet knows it
    try:
        with open(path, "wb") as f:
            f.write(pkgutil.get_data("rayctl_keeper.rayhook", "setup_worker.py"))
    except OSError:
        return
    ray_params.setup_worker_path = path


def _announce_agent(node):
    port = getattr(node._ray_params, "dashboard_agent_listen_port", 0)
    try:
        from ray._raylet import DASHBOARD_AGENT_LISTEN_PORT_NAME, persist_port
        if port:
            persist_port(node.get_session_dir_path(), node.node_id, DASHBOARD_AGENT_LISTEN_PORT_NAME, port)
    except (ImportError, AttributeError):
        pass  # a Ray whose raylet does not wait for such a file


def _change_head(home, has_job):
    try:
        from ray._private import services
        from ray._private.node import Node
        _ = services.start_api_server, services.start_ray_process, Node.start_ray_client_server
    except (ImportError, AttributeError):
        return
    os.mkdir(home)
    with open(os.path.join(home, "ray_bootstrap_config.yaml"), "w") as f:
        f.write("provider: {type: rayctl}\n")
    dashboard = _Dashboard(services, home)
    services.start_api_server = dashboard.start
    init, start_at_users = Node.__init__, Node.start_ray_client_server
    Node.start_ray_client_server = lambda self: None

    def start_client_server(node):
        with _current_directory(home), _environment(**{FORK_HANDLERS: os.environ.get(FORK_HANDLERS, "0")}):
            start_at_users(node)

    def later(self, *args, **kwargs):
        init(self, *args, **kwargs)
        dashboard.wait()
        if not self._ray_params.ray_client_server_port:
            return
        if has_job:
            threading.Thread(target=_start_after_driver, args=(start_client_server, self), daemon=True).start()
        else:
            start_client_server(self)

    Node.__init__ = later


@contextlib.contextmanager
def _current_directory(path):
    """Children started meanwhile begin there. It is all threads': nothing else that `ray start` does meanwhile names a file relative to it."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(path)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextlib.contextmanager
def _environment(**values):
    """Children started meanwhile have these variables."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _start_after_driver(start, node):
    while not _submitted(node):
        time.sleep(0.5)
    time.sleep(DRIVER_FIRST)
    # `ray start --block` walks through all_processes meanwhile, so it gets a new one.
    alone = copy.copy(node)
    alone.all_processes = {}
    start(alone)
    node.all_processes = dict(node.all_processes, **alone.all_processes)
    threading.Event().wait()  # what a thread started ends with it (PR_SET_PDEATHSIG)


def _submitted(node):
    """Whether any job was submitted: ray/dashboard/modules/job/common.py, JobInfoStorageClient (Ray 2.9 to 2.60)."""
    try:
        return bool(node.get_gcs_client().internal_kv_keys(b"_ray_internal_job_info_", namespace=b"job"))
    except Exception:  # another Ray, or the GCS is busy; then the client server starts at once
        return True


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


class _Dashboard:
    """Starts the dashboard in a thread, with a HOME of its own, and goes on as soon as its process is there."""

    def __init__(self, services, home):
        self._services, self._home = services, home
        self._start, self._spawn = services.start_api_server, services.start_ray_process
        self._spawned, self._ended = threading.Event(), threading.Event()
        self._process = self._error = None

    def start(self, *args, **kwargs):
        """Stands for services.start_api_server(include, raise_on_failure, host, ..., port=...)."""
        self._services.start_ray_process = self._spawn_with_home
        threading.Thread(target=self._run, args=(args, kwargs), daemon=True).start()
        self._spawned.wait()
        self._services.start_ray_process = self._spawn
        if self._process is None:
            self.wait()
        return "%s:%s" % (args[2], kwargs.get("port")), self._process

    def wait(self):
        """Raises what the start raised."""
        self._ended.wait()
        if self._error is not None:
            raise self._error

    def _run(self, args, kwargs):
        try:
            self._start(*args, **kwargs)
        except BaseException as error:
            self._error = error
        self._ended.set()
        self._spawned.set()
        # The dashboard gets SIGKILL when the thread that started it ends (PR_SET_PDEATHSIG).
        threading.Event().wait()

    def _spawn_with_home(self, *args, **kwargs):
        # Its fork server's sockets are in TMPDIR, and stay when it is killed.
        with _current_directory(self._home), _environment(HOME=self._home, TMPDIR=self._home):
            self._process = self._spawn(*args, **kwargs)
        self._spawned.set()
        return self._process
