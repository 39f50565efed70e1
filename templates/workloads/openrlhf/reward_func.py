"""The reward: OpenRLHF imports this file for each answer (--reward.remote_url). Put your own here."""

import re

import torch


def reward_func(queries, prompts, labels, **kwargs):
    """1 for each answer whose last number in a box is the label."""
    rewards = []
    for query, prompt, label in zip(queries, prompts, labels):
        boxed = re.findall(r"\\boxed\{([^{}]*)\}", query[len(prompt):])
        rewards.append(float(bool(boxed) and boxed[-1].strip() == str(label).strip()))
    rewards = torch.tensor(rewards)
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"correct": rewards}}
