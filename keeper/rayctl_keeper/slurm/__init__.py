"""What a job of Slurm runs: the batch script's part, and the programs of its steps."""
