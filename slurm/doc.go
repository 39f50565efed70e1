// Package slurm is the launcher inside Slurm allocations: one batch script, one step with a supervisor for each Ray node,
// and a keeper that the script becomes. Slurm is reached by one of the transports: commands of this machine, ssh, or slurmrestd.
package slurm
