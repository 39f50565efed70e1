"""Slurm's commands, and what their answers mean."""
