"""Searches for the learning rate with which gradient descent comes nearest to y = 3x + 1, and goes on with the trials of an attempt that was ended."""

import argparse
import json
import os
import random
import tempfile

from ray import tune
from ray.tune import Checkpoint, RunConfig, TuneConfig, Tuner


def train(config):
    state = {"step": 0, "a": 0.0, "b": 0.0}
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            with open(os.path.join(directory, "state.json")) as file:
                state = json.load(file)
    print("trial", tune.get_context().get_trial_id(), "begins at step", state["step"], flush=True)
    rng = random.Random(state["step"])
    while state["step"] < config["steps"]:
        for _ in range(10):
            x = rng.uniform(-1, 1)
            error = state["a"] * x + state["b"] - (3 * x + 1)
            state["a"] -= config["rate"] * error * x
            state["b"] -= config["rate"] * error
        state["step"] += 1
        metrics = {"step": state["step"], "loss": (state["a"] - 3) ** 2 + (state["b"] - 1) ** 2}
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "state.json"), "w") as file:
                json.dump(state, file)
            tune.report(metrics, checkpoint=Checkpoint.from_directory(directory))


parser = argparse.ArgumentParser()
parser.add_argument("--trials", type=int, default=4)
parser.add_argument("--steps", type=int, default=20)
options = parser.parse_args()

# After a sudden end, trials go on from Tune's last snapshot of the experiment, which it writes every 10 s or more unless this variable says otherwise. A snapshot
# has the state of all trials: with thousands of them, use more seconds than 1.
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "1")
path = os.path.join(os.environ["RAYCTL_OUTPUT_DIR"], "tune")
trainable = tune.with_resources(train, {"CPU": 1})
if Tuner.can_restore(path):
    print("going on with the trials in", path, flush=True)
    tuner = Tuner.restore(path, trainable, resume_unfinished=True, resume_errored=True)
else:
    tuner = Tuner(
        trainable,
        param_space={"rate": tune.loguniform(0.001, 0.5), "steps": options.steps},
        tune_config=TuneConfig(metric="loss", mode="min", num_samples=options.trials),
        # All checkpoints are kept: after a sudden end, a trial's checkpoint in the snapshot is not always its newest.
        run_config=RunConfig(name="tune", storage_path=os.path.dirname(path)),
    )
results = tuner.fit()
if results.num_errors:
    raise SystemExit(f"{results.num_errors} of {len(results)} trials failed: {results.errors[0]}")
best = results.get_best_result()
print(f"{len(results)} trials, the best has rate {best.config['rate']:.3f} and loss {best.metrics['loss']:.6f}")
