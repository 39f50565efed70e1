"""GRPO, the algorithm: Shao et al. 2024, "DeepSeekMath", arXiv:2402.03300, section 4.1.

No process, no network, no clock here, so that each term can be checked by itself (tests/).
"""

import jax.numpy as jnp
import numpy as np

CLIP = 0.2  # epsilon: how far the ratio may move before a token stops counting
KL_WEIGHT = 0.04  # beta


def advantages(rewards):
    """How much better each answer is than the others to its prompt: rewards [prompts, group], normalised by group.

    A group whose answers all got the same reward teaches nothing, so its advantages are 0.
    """
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    spread = rewards.std(axis=1, keepdims=True)
    return np.where(spread > 0, centred / np.maximum(spread, 1e-6), 0).astype(np.float32)


def clipped_gain(new, old, advantage):
    """Per token, the importance ratio times the advantage, or its clipped form where that is less (equation 3).

    new, old [n, tokens] are log-probabilities under the policy being trained and the one that sampled.
    """
    ratio = jnp.exp(new - old)
    gain = advantage[:, None]
    return jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)


def kl_estimate(new, reference):
    """Per token, the unbiased and never negative estimate of KL(policy || reference) (equation 4)."""
    difference = reference - new
    return jnp.exp(difference) - difference - 1


def loss(new, old, reference, advantage):
    """What the optimiser makes small, and the figures worth printing."""
    kl = kl_estimate(new, reference).mean()
    value = KL_WEIGHT * kl - clipped_gain(new, old, advantage).mean()
    clipped = (jnp.abs(jnp.exp(new - old) - 1) > CLIP).mean()
    return value, {"loss": value, "kl": kl, "clipped": clipped}
