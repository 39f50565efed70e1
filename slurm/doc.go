// Package slurm is the launcher inside Slurm allocations: one batch script, one step with a supervisor for each Ray node,
// and a keeper that the script becomes. Slurm is reached by commands, here or over ssh.
//
// It is the life of a cluster: launch, watch, terminate, list, result. What it stands on is in packages of its own: a run's directory (rundir), its job in
// Slurm (batchjob), the site (site, controller), and the ways into the job (tunnels, step). The job's comment names the launch by a nonce, so that an answer
// of sbatch that was lost is found again.
package slurm
