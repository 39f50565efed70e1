"""The policy: a small decoder-only transformer, its parameters a flat dict of arrays."""

import onethread  # noqa: F401  (first: it sets what jax reads when it is imported)

import jax
import jax.numpy as jnp
import numpy as np

import task

LAYERS = 2
WIDTH = 64
HEADS = 4
LENGTH = task.PROMPT_LENGTH + task.DIGITS - 1  # the last digit is answered, never read


def init(seed):
    """The parameters to begin with, as numpy arrays by name."""
    rng = np.random.default_rng(seed)

    def normal(*shape, scale):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    params = {
        "token": normal(task.VOCABULARY, WIDTH, scale=0.5),
        "position": normal(LENGTH, WIDTH, scale=0.5),
        "out": normal(WIDTH, task.VOCABULARY, scale=0.02),
    }
    for layer in range(LAYERS):
        params[f"{layer}.qkv"] = normal(WIDTH, 3 * WIDTH, scale=WIDTH**-0.5)
        params[f"{layer}.mix"] = normal(WIDTH, WIDTH, scale=WIDTH**-0.5)
        params[f"{layer}.up"] = normal(WIDTH, 4 * WIDTH, scale=WIDTH**-0.5)
        params[f"{layer}.down"] = normal(4 * WIDTH, WIDTH, scale=(4 * WIDTH) ** -0.5)
    return params


def sample(params, prompts, keys):
    """Draws an answer for each prompt with a key of its own: answers and their log-probabilities, both [n, DIGITS]."""

    def answer(tokens, place):
        scores = jax.nn.log_softmax(_logits(params, tokens[:, :LENGTH])[:, task.PROMPT_LENGTH - 1 + place])
        place_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, place)
        digits = jax.vmap(jax.random.categorical)(place_keys, scores).astype(tokens.dtype)
        return tokens.at[:, task.PROMPT_LENGTH + place].set(digits), _pick(scores, digits)

    # Places not answered yet hold zeros, which nothing before them sees; one length means one compilation.
    tokens = jnp.pad(prompts, ((0, 0), (0, task.DIGITS)))
    tokens, old = jax.lax.scan(answer, tokens, jnp.arange(task.DIGITS))
    return tokens[:, task.PROMPT_LENGTH :], old.T


def log_probs(params, prompts, answers):
    """The log-probability of every token of the given answers: [n, DIGITS]."""
    tokens = jnp.concatenate([prompts, answers[:, :-1]], axis=1)
    scores = jax.nn.log_softmax(_logits(params, tokens)[:, task.PROMPT_LENGTH - 1 :])
    return _pick(scores, answers)


def _logits(params, tokens):
    x = params["token"][tokens] + params["position"][: tokens.shape[1]]
    for layer in range(LAYERS):
        x = x + _attend(_norm(x) @ params[f"{layer}.qkv"]) @ params[f"{layer}.mix"]
        x = x + jax.nn.gelu(_norm(x) @ params[f"{layer}.up"]) @ params[f"{layer}.down"]
    return _norm(x) @ params["out"]


def _attend(qkv):
    rows, length, _ = qkv.shape
    q, k, v = jnp.moveaxis(qkv.reshape(rows, length, 3, HEADS, WIDTH // HEADS), 2, 0)
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(rows, length, WIDTH)


def _norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def _pick(scores, tokens):
    return jnp.take_along_axis(scores, tokens[..., None], axis=-1)[..., 0]
