"""Adam (Kingma and Ba 2015, arXiv:1412.6980) with the gradient's norm limited."""

import jax
import jax.numpy as jnp

LEARNING_RATE = 1e-3
DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.99, 1e-8
LARGEST_NORM = 1.0


def init(params):
    """The state to begin with: both moments 0."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"count": jnp.zeros((), jnp.int32), "mean": zeros, "square": zeros}


def step(params, state, gradient):
    """One update: the new parameters and the new state."""
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1, LARGEST_NORM / norm), gradient)
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: DECAY * m + (1 - DECAY) * g, state["mean"], gradient)
    square = jax.tree.map(lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * g * g, state["square"], gradient)

    def move(p, m, s):
        m, s = m / (1 - DECAY**count), s / (1 - SQUARE_DECAY**count)
        return p - LEARNING_RATE * m / (jnp.sqrt(s) + EPSILON)

    return jax.tree.map(move, params, mean, square), {"count": count, "mean": mean, "square": square}
