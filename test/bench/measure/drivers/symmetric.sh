#!/bin/bash
# Ray 2.60's documentation, "Deploying on Slurm": ray symmetric-run.
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" ray symmetric-run --address "$head:6379" --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus=1 -- "$@"
