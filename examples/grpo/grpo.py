"""GRPO on a Ray cluster: one learner and several rollout actors teach a small transformer to sort digits.

Run it as a Ray job (rayctl.yaml here). It needs a cluster whose nodes have the custom resources "learner"
and "rollout"; there is one rollout actor for each unit of the latter. Exit code: 0 when the goal was reached,
1 when the steps ran out before it, 143 when it was stopped by SIGTERM after saving a checkpoint.
"""

import argparse
import collections
import os
import signal
import sys
import time

import numpy as np
import ray

import checkpoint
import task
from learner import Learner
from rollout import Rollout

PROMPTS = 32  # per step
GROUP = 16  # answers per prompt
GOAL_STEPS = 5  # the goal is a mean over this many steps: one lucky batch is not enough


def main():
    options = parse_options()
    ray.init()
    stop = StopRequest()
    begin, state = resume(options)
    learner, rollouts = start_actors(options.seed, state)
    print(f"1 learner, {len(rollouts)} rollout actors, {PROMPTS} prompts x {GROUP} answers a step", flush=True)

    step, reward = train(options, begin, learner, rollouts, stop)
    if step > begin:
        save(options, step, learner)
    if stop.requested:
        print(f"stopped after step {step}: the next attempt goes on from there", flush=True)
        return 128 + signal.SIGTERM
    reached = reward >= options.goal
    print(f"goal {options.goal} {'reached' if reached else 'not reached'}: mean reward {reward:.3f}", flush=True)
    return 0 if reached else 1


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.environ.get("RAYCTL_OUTPUT_DIR", "out"), help="folder for checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint; a second attempt always does")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=300, help="give up after this many")
    parser.add_argument("--goal", type=float, default=0.95, help=f"mean reward over {GOAL_STEPS} steps to stop at")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    options = parser.parse_args()
    options.resume |= int(os.environ.get("RAYCTL_ATTEMPT", "1")) > 1
    return options


class StopRequest:
    """Remembers that SIGTERM came, so that a step is finished and saved before the driver ends."""

    def __init__(self):
        self.requested = False
        signal.signal(signal.SIGTERM, self._request)  # after ray.init, which sets a handler of its own

    def _request(self, *_):
        self.requested = True


def resume(options):
    """The number of steps already done, and the learner's state after them (None: a new one)."""
    saved = checkpoint.load(options.out) if options.resume else None
    if saved is None:
        return 0, None
    step, state = saved
    print(f"resumed from step {step} of {options.out}", flush=True)
    return step, state


def start_actors(seed, state):
    """The learner and as many rollout actors as the cluster has room for, each on a node of its own group."""
    resources = ray.cluster_resources()
    missing = [name for name in ("learner", "rollout") if resources.get(name, 0) < 1]
    if missing:
        sys.exit(f"no node of this cluster has the resource {missing[0]!r}: see workers in rayctl.yaml")

    learner = ray.remote(num_cpus=1, resources={"learner": 1})(Learner).remote(seed, state)
    worker = ray.remote(num_cpus=1, resources={"rollout": 1}, max_restarts=-1, max_task_retries=-1)(Rollout)
    return learner, [worker.remote() for _ in range(int(resources["rollout"]))]


def train(options, begin, learner, rollouts, stop):
    """Steps until the goal, the last step or a stop request: the steps done and the mean reward at the end."""
    params = learner.params_for_sampling.remote()
    recent = collections.deque(maxlen=GOAL_STEPS)
    step, started = begin, time.monotonic()
    while step < options.steps and not stop.requested:
        params, figures = one_step(options.seed, step, learner, rollouts, params)
        step += 1
        recent.append(figures["reward"])
        print_step(step, figures, time.monotonic() - started)
        if len(recent) == GOAL_STEPS and np.mean(recent) >= options.goal:
            break
        if step % options.save_every == 0:
            save(options, step, learner)
    return step, float(np.mean(recent)) if recent else 0.0


def one_step(seed, step, learner, rollouts, params):
    """Samples with params on all rollout actors, then updates: a reference to the new params, and the figures.

    Parameters and samples go from actor to actor; the driver only holds references to them.
    """
    prompts = task.draw_prompts(np.random.default_rng((seed, step)), PROMPTS)
    samples, first = [], 0
    for actor, part in zip(rollouts, np.array_split(prompts, len(rollouts))):
        samples.append(actor.sample.remote(params, part, first, GROUP, (seed, step)))
        first += len(part)
    params, figures = learner.update.options(num_returns=2).remote((seed, step), *samples)
    return params, ray.get(figures)


def print_step(step, figures, seconds):
    shown = ("reward", "exact", "kl", "clipped", "loss")
    values = " ".join(f"{name} {figures[name]:.2f}" for name in shown)
    print(f"step {step} {values} seconds {seconds:.1f}", flush=True)


def save(options, step, learner):
    checkpoint.save(options.out, step, ray.get(learner.state.remote()))


if __name__ == "__main__":
    sys.exit(main())
