"""The learner: the one process that changes the policy."""

import policy  # before jax: it limits jax's threads

import jax
import numpy as np

import adam
import objective

EPOCHS = 2  # how often each batch is gone through: from the second update on, the ratio is not 1
MINIBATCHES = 2


class Learner:
    """Holds the policy, the frozen reference policy and the optimiser's state. A Ray actor."""

    def __init__(self, seed, state=None):
        """Begins with a new policy, or where state, of an earlier learner, left off."""
        self.reference = policy.init(seed)
        self.params, self.optimiser = self.reference, adam.init(self.reference)
        if state is not None:
            self.params, self.optimiser = state["params"], state["optimiser"]

    def params_for_sampling(self):
        return jax.device_get(self.params)

    def state(self):
        """All that a new learner needs to go on, as numpy arrays."""
        return jax.device_get({"params": self.params, "optimiser": self.optimiser})

    def update(self, seeds, *rollouts):
        """Learns from what the rollout actors sampled: the new parameters for them, and the step's figures."""
        rollout = {name: np.concatenate([r[name] for r in rollouts]) for name in rollouts[0]}
        batch = _flatten(rollout | {"advantage": objective.advantages(rollout["reward"])})
        batch["reference"] = np.asarray(_log_probs(self.reference, batch["prompt"], batch["answer"]))

        figures = []
        for rows in _minibatches(np.random.default_rng(seeds), len(batch["answer"])):
            chosen = {name: batch[name][rows] for name in ("prompt", "answer", "old", "reference", "advantage")}
            self.params, self.optimiser, figure = _train(self.params, self.optimiser, chosen)
            figures.append(figure)

        means = jax.tree.map(lambda *values: float(np.mean(values)), *jax.device_get(figures))
        right = (batch["reward"] == 1).mean()
        return self.params_for_sampling(), {"reward": float(batch["reward"].mean()), "exact": float(right), **means}


def _flatten(rollout):
    """One row for each answer instead of one for each prompt."""
    prompts, group = rollout["reward"].shape
    rollout["prompt"] = np.repeat(rollout["prompt"][:, None], group, axis=1)
    return {name: values.reshape(prompts * group, *values.shape[2:]) for name, values in rollout.items()}


def _minibatches(rng, rows):
    for _ in range(EPOCHS):
        yield from np.array_split(rng.permutation(rows), MINIBATCHES)


_log_probs = jax.jit(policy.log_probs)


@jax.jit
def _train(params, optimiser, batch):
    def loss(params):
        new = policy.log_probs(params, batch["prompt"], batch["answer"])
        return objective.loss(new, batch["old"], batch["reference"], batch["advantage"])

    gradient, figures = jax.grad(loss, has_aux=True)(params)
    return *adam.step(params, optimiser, gradient), figures
