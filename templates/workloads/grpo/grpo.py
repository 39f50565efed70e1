"""GRPO in its smallest form: a softmax policy over ten answers learns the one that a verifier rewards.

Rollout actors sample groups of answers, the learner moves the policy by advantages normalised within each group (Shao et al. 2024).
The policy is saved to RAYCTL_OUTPUT_DIR, where the next attempt goes on.
"""

import argparse
import json
import math
import os
import random
import signal
import statistics
import sys
import time

import ray

ANSWERS, RIGHT, GROUP = 10, 7, 16
CHECKPOINT = os.path.join(os.environ["RAYCTL_OUTPUT_DIR"], "checkpoint.json")
ENDS_AT = float(os.environ.get("RAYCTL_ENDS_AT", "inf"))  # not set: there is no limit


def softmax(logits):
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    total = sum(weights)
    return [w / total for w in weights]


@ray.remote(num_cpus=0.5, resources={"rollout": 0.5})
class Rollout:
    def __init__(self, number):
        self.number = number

    def sample(self, step, logits):
        rng = random.Random(f"{step} {self.number}")  # a step that is done again is the same
        answers = rng.choices(range(ANSWERS), softmax(logits), k=GROUP)
        return [(answer, 1.0 if answer == RIGHT else 0.0) for answer in answers]


@ray.remote(num_cpus=0.5, resources={"learner": 0.5})
class Learner:
    def __init__(self, logits):
        self.logits = logits

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


def load():
    """The number of steps that are done, and the policy after them."""
    try:
        with open(CHECKPOINT) as file:
            return json.load(file)
    except FileNotFoundError:
        return 0, [0.0] * ANSWERS


def save(step, logits):
    """Replaces the checkpoint as a whole: whenever the driver is killed, the old one or the new one is there."""
    os.makedirs(os.path.dirname(CHECKPOINT), exist_ok=True)
    with open(CHECKPOINT + ".part", "w") as file:
        json.dump([step, logits], file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(CHECKPOINT + ".part", CHECKPOINT)


parser = argparse.ArgumentParser()
parser.add_argument("--rollouts", type=int, help="actors that sample answers (default: one for each node of the group rollout)")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--save-every", type=int, default=5, metavar="STEPS")
options = parser.parse_args()
ray.init()
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))  # after ray.init, which has a handler of its own
step, logits = load()
print("beginning at step", step, flush=True)
learner = Learner.remote(logits)
rollouts = [Rollout.remote(number) for number in range(options.rollouts or int(ray.cluster_resources()["rollout"]))]
while step < options.steps and not stop:
    policy = learner.policy.remote()
    groups = ray.get([rollout.sample.remote(step, policy) for rollout in rollouts])
    print(f"step {step} reward {ray.get(learner.update.remote(groups)):.2f}", flush=True)
    step += 1
    if step % options.save_every == 0 or time.time() > ENDS_AT - 60:  # in the last minute after each step
        save(step, ray.get(learner.policy.remote()))
save(step, ray.get(learner.policy.remote()))
if step < options.steps:
    print("stopped before step", step, flush=True)
    sys.exit(128 + signal.SIGTERM)  # not 0: the run is not done
