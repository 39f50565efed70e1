// Package slurm is the launcher inside Slurm allocations: one batch script, one step with a supervisor for each Ray node,
// and a keeper that the script becomes. Slurm is reached by commands, here or over ssh.
//
// A run has a directory, <slurm.dir>/runs/<name>/, which the login node and all nodes share:
//
//	record.json  who launched what; its exclusive creation is the claim of the name
//	slurm.sh     the batch script
//	current      written by the job: which attempt runs, where
//	1/, 2/, ...  a keeper's run directory for each attempt (docs/keeper.md); 1/commit is the commit of the launch
//	again        in an attempt's directory: why the next one followed
//	seed/        what a requeued attempt needs again: token, secrets, packages; gone at the end
//
// The job's comment names the launch by a nonce, so that an answer of sbatch that was lost is found again.
package slurm
