"""The task: put four digits in order. The answer can be checked, so the reward needs no model."""

import numpy as np

DIGITS = 4
SORT = 10  # the token after the digits that asks for the answer
VOCABULARY = 11
PROMPT_LENGTH = DIGITS + 1


def draw_prompts(rng, count):
    """Draws count prompts, each of DIGITS random digits and SORT: int32 [count, PROMPT_LENGTH]."""
    digits = rng.integers(0, 10, size=(count, DIGITS), dtype=np.int32)
    return np.concatenate([digits, np.full((count, 1), SORT, np.int32)], axis=1)


def reward(prompts, answers):
    """The share of places, 0 to 1, where each answer has the digit that belongs there.

    prompts [..., PROMPT_LENGTH], answers [..., DIGITS]; answers at random get about 0.1.
    """
    expected = np.sort(prompts[..., :DIGITS], axis=-1)
    return (answers == expected).mean(axis=-1, dtype=np.float32)
