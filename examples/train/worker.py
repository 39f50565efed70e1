"""What each of the training processes does. Ray Train runs train() once on every worker."""

import functools
import os
import socket
import tempfile

import numpy as np
import ray
from ray import train as ray_train
from ray.train import Checkpoint
from ray.train.collective import broadcast_from_rank_zero

# One thread and the processor only, set before jax is imported: each worker asked Ray for one CPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
from jax._src import distributed, xla_bridge
from jaxlib import _jax

import model

BATCH = 256  # rows a step, over all workers
ROWS = 8192
STEPS = ROWS // BATCH  # an epoch
FILE = "model.npz"


def train(config):
    """Trains up to config["epochs"] epochs, from the last checkpoint on if there is one.

    A checkpoint is saved after each epoch, and from the moment on at which Ray reports that a node is going to be taken
    away after each step. If all of them go, so does train(): the next run, or attempt, goes on from there.
    """
    context = ray_train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    join(rank, workers)

    run_step = model.make_step(workers)
    rows, labels = (part[rank::workers] for part in model.draw_data(np.random.default_rng(config["seed"]), ROWS))
    begin, params = restore(ray_train.get_checkpoint()) or (0, model.init(config["seed"]))
    progress = Progress(os.path.join(config["out"], "last-step"))
    lost = max(0, progress.read() - begin) if begin else 0
    if rank == 0:
        start = f"restored step {begin}, steps lost: {lost}" if begin else "a new model"
        print(f"{workers} workers, {len(rows)} rows each, {start}", flush=True)

    warned, figures = False, []
    for step in range(begin + 1, config["epochs"] * STEPS + 1):
        epoch, batch = (step - 1) // STEPS + 1, (step - 1) % STEPS
        if batch == 0 or step == begin + 1:
            order = np.random.default_rng((config["seed"], epoch, rank)).permutation(len(rows))
            batches, figures = np.array_split(order, STEPS), []
            size = min(map(len, batches))  # one size for all, so that all workers step together
        part = batches[batch][:size]
        params, figure = run_step(params, rows[part], labels[part])
        figures.append(figure)
        if rank == 0:
            progress.write(step)

        notice = ray_train.get_preemption_info()  # the same on all workers
        if notice and not warned and rank == 0:
            print(f"of the workers {notice.preempted_ranks} are going to be taken away", flush=True)
        warned = notice is not None
        if warned or batch == STEPS - 1:
            loss, accuracy = np.mean(figures, axis=0)
            report(rank, params, {"step": step, "epoch": epoch, "loss": float(loss), "accuracy": float(accuracy), "steps_lost": lost})
        if warned and len(notice.preempted_ranks) == workers:
            break
    jax.distributed.shutdown()


class Progress:
    """The last step that was made, saved or not, in a file: after a restart it shows what was lost."""

    def __init__(self, path):
        self.path = path

    def read(self):
        if not os.path.exists(self.path):
            return 0
        with open(self.path) as file:
            return int(file.read())

    def write(self, step):
        with open(self.path + ".new", "w") as file:
            file.write(str(step))
        os.replace(self.path + ".new", self.path)


def join(rank, workers):
    """Makes the workers one JAX system, whose all-reduce goes over the network (gloo, as there are only processors).

    JaxTrainer does this by itself only for GPUs and TPUs.
    """
    address = broadcast_from_rank_zero(free_address() if rank == 0 else None)
    jax.distributed.initialize(address, num_processes=workers, process_id=rank)

    # Gloo would listen on what the machine's own name stands for, which is often 127.0.1.1 and out of the other
    # nodes' reach. JAX has no public option for another address, hence the private modules (jax is pinned).
    gloo = _jax.make_gloo_tcp_collectives(distributed.global_state.client, hostname=ray.util.get_node_ip_address())
    client = functools.partial(xla_bridge.make_cpu_client, collectives=gloo)
    xla_bridge.register_backend_factory("cpu", client, priority=0, fail_quietly=False)


def free_address():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{ray.util.get_node_ip_address()}:{probe.getsockname()[1]}"


def restore(checkpoint):
    """The step and parameters of a checkpoint, or None."""
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder, np.load(os.path.join(folder, FILE)) as file:
        params = dict(file)
    return int(params.pop("step")), params


def report(rank, params, figures):
    """Reports the figures to Ray Train; rank 0, whose parameters are the same as everyone's, adds the checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if rank == 0:
            print("epoch {epoch} step {step} loss {loss:.3f} accuracy {accuracy:.3f}".format(**figures), flush=True)
            np.savez(os.path.join(folder, FILE), step=figures["step"], **params)
            checkpoint = Checkpoint.from_directory(folder)
        ray_train.report(figures, checkpoint=checkpoint)
