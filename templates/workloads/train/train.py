"""Fits y = 3x + 1 by gradient descent on several workers, and resumes from the last checkpoint."""

import argparse
import json
import os
import random
import tempfile

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def load():
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return {"step": 0, "a": 0.0, "b": 0.0}
    with checkpoint.as_directory() as directory:
        with open(os.path.join(directory, "state.json")) as file:
            return json.load(file)


def train_loop(config):
    state = load()
    print("beginning at step", state["step"], flush=True)
    rng = random.Random(ray.train.get_context().get_world_rank())
    while state["step"] < config["steps"]:
        for _ in range(10):
            x = rng.uniform(-1, 1)
            error = state["a"] * x + state["b"] - (3 * x + 1)
            state["a"] -= 0.1 * error * x
            state["b"] -= 0.1 * error
        state["step"] += 1
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "state.json"), "w") as file:
                json.dump(state, file)
            ray.train.report({"a": state["a"], "b": state["b"]}, checkpoint=Checkpoint.from_directory(directory))


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--steps", type=int, default=20)
options = parser.parse_args()
trainer = DataParallelTrainer(
    train_loop,
    train_loop_config={"steps": options.steps},
    scaling_config=ScalingConfig(num_workers=options.workers),
    run_config=RunConfig(name="train", storage_path=os.environ["RAYCTL_OUTPUT_DIR"]),
)
print("fitted:", trainer.fit().metrics)
