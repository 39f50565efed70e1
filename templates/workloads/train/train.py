"""Fits y = 3x + 1 by gradient descent on several workers: with torch where it is installed, else in plain Python.

Training goes on from the last checkpoint. When Ray tells that nodes are going to be taken away (a time limit, a preemption, an eviction), it saves at once.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile

import ray
import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig

try:
    import torch
    from ray.train.torch import TorchTrainer as Trainer, get_device, prepare_model
except ImportError:
    torch = None
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer as Trainer


class TorchLine:
    """The model with torch, which averages the gradients of all workers: by nccl between GPUs, else by gloo."""

    def __init__(self):
        self.line = torch.nn.Linear(1, 1)
        self.model = prepare_model(self.line)  # on this worker's device, and wrapped in DistributedDataParallel
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.3)

    def fit(self, points):
        x = torch.tensor(points, device=get_device()).unsqueeze(1)
        loss = torch.nn.functional.mse_loss(self.model(x), 3 * x + 1)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def figures(self):
        return {"a": self.line.weight.item(), "b": self.line.bias.item()}

    def save(self, directory):
        torch.save([self.line.state_dict(), self.optimizer.state_dict()], os.path.join(directory, "model.pt"))

    def load(self, directory):
        line, optimizer = torch.load(os.path.join(directory, "model.pt"), map_location=get_device())
        self.line.load_state_dict(line)
        self.optimizer.load_state_dict(optimizer)


class PlainLine:
    """The same without torch: each worker has its own model, and the first one's is saved."""

    def __init__(self):
        self.a = self.b = 0.0

    def fit(self, points):
        for x in points:
            error = self.a * x + self.b - (3 * x + 1)
            self.a -= 0.1 * error * x
            self.b -= 0.1 * error

    def figures(self):
        return {"a": self.a, "b": self.b}

    def save(self, directory):
        pass  # the figures are the model

    def load(self, directory):
        state = read(directory)
        self.a, self.b = state["a"], state["b"]


def read(directory):
    with open(os.path.join(directory, "state.json")) as file:
        return json.load(file)


def train_loop(config):
    """What each worker does."""
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    model, step = TorchLine() if torch else PlainLine(), 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            model.load(directory)
            step = read(directory)["step"]
    if rank == 0:
        print("beginning at step", step, flush=True)
    rng = random.Random(f"{step} {rank}")
    preempted = getattr(ray.train, "get_preemption_info", lambda: None)  # older versions of Ray do not tell
    while step < config["steps"]:
        model.fit([rng.uniform(-1, 1) for _ in range(10)])
        step += 1
        notice = preempted()  # the same on all workers
        if notice or step % config["save_every"] == 0 or step == config["steps"]:
            save(rank, step, model)
        if notice and len(notice.preempted_ranks) == workers:  # if some are left, Ray Train goes on with them
            break


def save(rank, step, model):
    """All workers report. The checkpoint is of the first one."""
    state = {"step": step, **model.figures()}
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = None
        if rank == 0:
            model.save(directory)
            with open(os.path.join(directory, "state.json"), "w") as file:
                json.dump(state, file)
            checkpoint = Checkpoint.from_directory(directory)
        ray.train.report(state, checkpoint=checkpoint)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="each worker has a GPU")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=1, metavar="STEPS")
    options = parser.parse_args()
    if options.gpu and not torch:
        sys.exit("the workers have GPUs, and torch, which uses them, is not installed: take an image with torch, or add it to local.packages")
    ray.init()
    # SIGTERM comes when the run is to end. If that is because its nodes go, Ray tells the workers, too: they save and return, and so does fit().
    # Else (rayctl down) nothing follows, and the alarm ends this process within job.grace, which the nodes have in the variable.
    ended = []

    def on_end(*_):
        ended.append(True)
        signal.alarm(max(1, int(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", "30")) - 5))

    signal.signal(signal.SIGTERM, on_end)  # after ray.init, which has a handler of its own
    trainer = Trainer(
        train_loop,
        train_loop_config={"steps": options.steps, "save_every": options.save_every},
        scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpu),
        # By both Ray Train finds the last checkpoint of an earlier attempt. That of one model does not fit the other.
        run_config=RunConfig(name="train-torch" if torch else "train", storage_path=os.environ["RAYCTL_OUTPUT_DIR"]),
    )
    figures = trainer.fit().metrics
    if ended and figures["step"] < options.steps:
        print("stopped after step", figures["step"], flush=True)
        return 128 + signal.SIGTERM  # not 0: the run is not done
    print("fitted:", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
