"""A small network that classifies the points of two interleaved spirals, and its data-parallel training step."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

TURNS = 1.5
WIDTH = 64
LEARNING_RATE = 0.1
MOMENTUM = 0.9


def draw_data(rng, count):
    """Points on two noisy spirals [count, 2], and which of the two each is on [count]."""
    labels = rng.integers(0, 2, count)
    turn = np.sqrt(rng.random(count)) * TURNS * 2 * np.pi
    angle = turn + labels * np.pi
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * turn[:, None] / (TURNS * 2 * np.pi)
    return (points + rng.normal(0, 0.02, (count, 2))).astype(np.float32), labels.astype(np.int32)


def init(seed):
    """Weights, and the velocities of momentum, by name; the same on every worker."""
    rng = np.random.default_rng(seed)
    sizes = (2, WIDTH, WIDTH, 2)
    params = {}
    for layer, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:])):
        params[f"weight{layer}"] = (rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in)).astype(np.float32)
        params[f"bias{layer}"] = np.zeros(fan_out, np.float32)
    return params | {f"{name}.velocity": np.zeros_like(value) for name, value in params.items()}


def make_step(workers):
    """A function (params, rows, labels of this worker) -> (params, (loss, accuracy) over all workers)."""
    mesh = jax.make_mesh((workers,), ("worker",))
    everywhere, by_worker = PartitionSpec(), PartitionSpec("worker")

    def step(params, rows, labels):
        weights = {name: value for name, value in params.items() if not name.endswith(".velocity")}
        figures, gradient = jax.value_and_grad(_loss, has_aux=True)(weights, rows, labels)
        gradient, figures = jax.lax.pmean((gradient, figures), "worker")  # the all-reduce
        for name, slope in gradient.items():
            velocity = MOMENTUM * params[f"{name}.velocity"] - LEARNING_RATE * slope
            params = params | {name: params[name] + velocity, f"{name}.velocity": velocity}
        return params, jnp.stack(figures)

    specs = {"in_specs": (everywhere, by_worker, by_worker), "out_specs": everywhere}
    sharded = jax.jit(jax.shard_map(step, mesh=mesh, **specs, check_vma=False))

    def run(params, *batch):
        batch = (jax.make_array_from_process_local_data(NamedSharding(mesh, by_worker), part) for part in batch)
        return jax.device_get(sharded(params, *batch))

    return run


def _loss(weights, rows, labels):
    x = jax.nn.relu(rows @ weights["weight0"] + weights["bias0"])
    x = jax.nn.relu(x @ weights["weight1"] + weights["bias1"])
    scores = jax.nn.log_softmax(x @ weights["weight2"] + weights["bias2"])
    loss = -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()
    return loss, (scores.argmax(axis=1) == labels).mean()
