"""Data-parallel training with Ray Train: workers share the data, average gradients, save checkpoints.

Run it as a Ray job (rayctl.yaml here): one training process for each unit of the cluster's custom resource
"trainer". Run again with the same output folder, it goes on where the last checkpoint left off. Before its nodes are
taken away (a time limit, a preemption, an eviction) it saves: see worker.py.
"""

import argparse
import os
import signal
import sys

import ray
from ray.train import CheckpointConfig, FailureConfig, LoggingConfig, RunConfig, ScalingConfig
from ray.train.v2.jax import JaxTrainer

import worker

# Seconds from SIGTERM on. Ray kills the driver after job.grace, which the nodes have in this variable.
PATIENCE = max(1, int(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", "30")) - 5)


def main():
    options = parse_options()
    # Otherwise what workers print is printed and logged too, and so seen twice.
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")
    ray.init()
    # SIGTERM comes when the run is to end. If that is because the nodes are removed, Ray informs the workers, too: they save and
    # return, and so does fit(). Otherwise (rayctl down) nothing follows, and the alarm ends this process.
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(PATIENCE))

    workers = int(ray.cluster_resources().get("trainer", 0))
    if workers == 0:
        sys.exit("no node of this cluster has the resource 'trainer': see workers in rayctl.yaml")
    # By storage path and name Ray Train finds an earlier run's last checkpoint and hands it to the workers.
    run = RunConfig(
        storage_path=os.path.abspath(options.out),
        name="train",
        checkpoint_config=CheckpointConfig(num_to_keep=2),
        failure_config=FailureConfig(max_failures=3),
        logging_config=LoggingConfig(log_level="WARNING"),
    )
    scaling = ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 1, "trainer": 1})
    loop = {"epochs": options.epochs, "seed": options.seed, "out": run.storage_path}
    result = JaxTrainer(worker.train, train_loop_config=loop, scaling_config=scaling, run_config=run).fit()
    figures = "epoch {epoch} step {step} loss {loss:.3f} accuracy {accuracy:.3f}".format(**result.metrics)
    how = "trained" if result.metrics["step"] == options.epochs * worker.STEPS else "saved, to go on from there,"
    print(f"{how} on {workers} workers: {figures}")
    print(f"rayctl-figure steps_lost={result.metrics['steps_lost']}")  # the receipt shows it


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    out = os.environ.get("RAYCTL_OUTPUT_DIR", "out")
    parser.add_argument("--out", default=out, help="folder for checkpoints, the same on all nodes")
    parser.add_argument("--epochs", type=int, default=10, help="of all runs together")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
