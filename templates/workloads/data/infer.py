"""Batch inference: a model reads all rows of a dataset once. A row that an attempt wrote is not done again by the next one."""

import argparse
import os
import shutil

import numpy
import ray
from ray.data.checkpoint import CheckpointConfig

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=1000)
parser.add_argument("--replicas", type=int, default=2)
parser.add_argument("--batch", type=int, default=50)
options = parser.parse_args()
out = os.environ["RAYCTL_OUTPUT_DIR"]


class Model:
    """Is loaded once in each actor. Put yours in its place."""

    def __init__(self):
        self.weights = numpy.array([3.0, 1.0])

    def __call__(self, batch):
        batch["y"] = self.weights[0] * batch["x"] + self.weights[1]
        return batch


def source():
    """The input, with an id in each row. Put the path of yours in its place, such as s3://bucket/questions."""
    path = os.path.join(out, "input")
    if not os.path.exists(path):
        shutil.rmtree(path + ".part", ignore_errors=True)  # of an attempt that was ended
        rows = ray.data.range(options.rows).map_batches(lambda batch: {"id": batch["id"], "x": batch["id"] / 10})
        rows.write_parquet(path + ".part")
        os.rename(path + ".part", path)
    return path


path = source()
context = ray.data.DataContext.get_current()  # a dataset keeps the one that it was made with
context.checkpoint_config = CheckpointConfig(id_column="id", checkpoint_path=os.path.join(out, "done"), delete_checkpoint_on_success=False)
rows = ray.data.read_parquet(path)  # in blocks of at most 128 MiB; a block is done or not
rows.map_batches(Model, batch_size=options.batch, compute=ray.data.ActorPoolStrategy(size=options.replicas)).write_parquet(os.path.join(out, "result"))
context.checkpoint_config = None
print(f"{ray.data.read_parquet(os.path.join(out, 'result')).count()} rows are done")
