"""The rollout actors: they answer prompts with the policy they are given, and have the answers checked."""

import functools

import policy  # before jax: it limits jax's threads

import jax
import jax.numpy as jnp
import numpy as np

import task


class Rollout:
    """Samples answers. A Ray actor without state, so Ray may restart it on another node at any time."""

    def sample(self, params, prompts, first, group, seeds):
        """Samples group answers for each prompt.

        The keys come from seeds (the run's and the step's) and from each prompt's place in the whole batch, of
        which prompts is the part that begins at first: however many actors share a batch, its answers are the same.
        """
        places = np.arange(first, first + len(prompts))
        answers, old = jax.device_get(_sample(params, prompts, places, group, *seeds))
        return {"prompt": prompts, "answer": answers, "old": old, "reward": task.reward(prompts[:, None], answers)}


@functools.partial(jax.jit, static_argnames="group")
def _sample(params, prompts, places, group, seed, step):
    key = jax.random.fold_in(jax.random.key(seed), step)
    prompt_keys = jax.vmap(jax.random.fold_in, (None, 0))(key, places)
    keys = jax.vmap(jax.random.split, (0, None))(prompt_keys, group).reshape(-1)
    answers, old = policy.sample(params, jnp.repeat(prompts, group, axis=0), keys)
    return answers.reshape(-1, group, task.DIGITS), old.reshape(-1, group, task.DIGITS)
