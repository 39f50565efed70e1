"""Fits y = 3x + 1 with data-parallel torch: each rank has its own samples, and all take the mean of the gradients."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", rank % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")
torch.manual_seed(rank)
weights = torch.zeros(2, device=device)
for step in range(200):
    x = torch.rand(64, device=device) * 2 - 1
    error = weights[0] * x + weights[1] - (3 * x + 1)
    gradient = torch.stack([(error * x).mean(), error.mean()])
    dist.all_reduce(gradient)
    weights -= 0.3 * gradient / size
print("rank", rank, "of", size, "fitted", [round(value, 2) for value in weights.tolist()], flush=True)
dist.destroy_process_group()
