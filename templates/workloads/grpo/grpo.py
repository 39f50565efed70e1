"""GRPO in its smallest form: a softmax policy over ten answers learns the one that a verifier rewards.

Rollout actors sample groups of answers, the learner moves the policy by advantages normalised within each group (Shao et al. 2024).
"""

import argparse
import math
import random
import statistics

import ray

ANSWERS, RIGHT, GROUP, STEPS = 10, 7, 16, 40


def softmax(logits):
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    total = sum(weights)
    return [w / total for w in weights]


@ray.remote(num_cpus=0.5, resources={"rollout": 0.5})
class Rollout:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def sample(self, logits):
        answers = self.rng.choices(range(ANSWERS), softmax(logits), k=GROUP)
        return [(answer, 1.0 if answer == RIGHT else 0.0) for answer in answers]


@ray.remote(num_cpus=0.5, resources={"learner": 0.5})
class Learner:
    def __init__(self):
        self.logits = [0.0] * ANSWERS

    def policy(self):
        return self.logits

    def update(self, groups, rate=1.0):
        for group in groups:
            rewards = [reward for _, reward in group]
            spread = statistics.pstdev(rewards) or 1.0
            probabilities = softmax(self.logits)
            for answer, reward in group:
                advantage = (reward - statistics.mean(rewards)) / spread
                for i in range(ANSWERS):
                    gradient = (1.0 if i == answer else 0.0) - probabilities[i]
                    self.logits[i] += rate * advantage * gradient / len(group)
        return statistics.mean(reward for group in groups for _, reward in group)


parser = argparse.ArgumentParser()
parser.add_argument("--rollouts", type=int, default=2)
options = parser.parse_args()
ray.init()
learner = Learner.remote()
rollouts = [Rollout.remote(seed) for seed in range(options.rollouts)]
for step in range(STEPS):
    policy = learner.policy.remote()
    groups = ray.get([rollout.sample.remote(policy) for rollout in rollouts])
    print(f"step {step} reward {ray.get(learner.update.remote(groups)):.2f}", flush=True)
