"""PPO with RLlib: actors on the workers sample episodes of CartPole, the learner is in the driver. The next attempt goes on from the last checkpoint."""

import argparse
import os
import shutil
import signal
import sys
import time

import ray
from ray.rllib.algorithms.ppo import PPOConfig

CHECKPOINTS = os.path.join(os.environ["RAYCTL_OUTPUT_DIR"], "checkpoints")  # one directory for each, named by its iteration
ENDS_AT = float(os.environ.get("RAYCTL_ENDS_AT", "inf"))  # not set: there is no limit


def configured(runners):
    """The algorithm. Put your environment and your options in place of these."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=runners)
        .training(train_batch_size_per_learner=2000, minibatch_size=250, num_epochs=6, lr=0.0003)
        .learners(num_learners=0)  # as many as there are nodes with GPUs, and num_gpus_per_learner=1
        .debugging(seed=1)
    )


def saved():
    """The iterations that have a checkpoint."""
    names = os.listdir(CHECKPOINTS) if os.path.isdir(CHECKPOINTS) else []
    return sorted(int(name) for name in names if name.isdigit())


def save(algorithm, iteration):
    """A checkpoint gets its name when it is whole: whenever the driver is killed, the one before or this one is there."""
    path = os.path.join(CHECKPOINTS, str(iteration))
    if os.path.exists(path):
        return
    shutil.rmtree(path + ".part", ignore_errors=True)  # of an attempt that was ended
    algorithm.save_to_path(path + ".part")
    os.rename(path + ".part", path)
    for old in saved()[:-2]:
        shutil.rmtree(os.path.join(CHECKPOINTS, str(old)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runners", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=5, metavar="ITERATIONS")
    options = parser.parse_args()
    ray.init()
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))  # after ray.init, which has a handler of its own
    algorithm = configured(options.runners).build_algo()
    iteration = (saved() or [0])[-1]
    if iteration:
        algorithm.restore_from_path(os.path.join(CHECKPOINTS, str(iteration)))
    print("beginning at iteration", iteration, flush=True)
    while iteration < options.iterations and not stop:
        result = algorithm.train()
        iteration += 1
        print(f"iteration {iteration} return {result['env_runners']['episode_return_mean']:.1f}", flush=True)
        if iteration % options.save_every == 0 or time.time() > ENDS_AT - 60:  # in the last minute after each one
            save(algorithm, iteration)
    save(algorithm, iteration)
    algorithm.stop()
    if iteration < options.iterations:
        print("stopped after iteration", iteration, flush=True)
        return 128 + signal.SIGTERM  # not 0: the run is not done
    return 0


if __name__ == "__main__":
    sys.exit(main())
