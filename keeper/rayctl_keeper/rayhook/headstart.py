"""What is changed in the start of a head: its dashboard, and its Ray client server. hook.py lists the reasons."""

import contextlib
import copy
import os
import threading
import time

DRIVER_FIRST = 5.0  # seconds from a job's submission to the start of the Ray client server
# For the process that starts a server for each client of ray://. It forks only to run another program; gRPC's handlers of forks run meanwhile among its
# threads, and on a busy machine one such child of six dies before that program begins ("Starting Ray client server failed", Ray 2.60 without rayctl: 2 of 12
# clients; without the handlers 0 of 42).
FORK_HANDLERS = "GRPC_ENABLE_FORK_SUPPORT"


def change(home, has_job):
    """home: a directory to make, which is the dashboard's HOME. has_job: the Ray client server waits for the submission of a job."""
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
