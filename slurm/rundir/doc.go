// Package rundir keeps a run in a directory that the login node and all nodes share: the claim of its name, what is staged for its keeper, the commit,
// and how it was concluded. It reads and writes the files through package remote and depends on no batch system.
//
// A run has a directory, <root>/runs/<name>/:
//
//	record.json  who launched what; its exclusive creation is the claim of the name
//	slurm.sh     the batch script, as the launcher calls it
//	job          the id of the batch job
//	current      written by the job: which attempt runs, where
//	1/, 2/, ...  a keeper's run directory for each attempt (docs/keeper.md); 1/commit is the commit of the launch
//	again        in an attempt's directory: why the next one followed
//	withdrawn    in an attempt's directory: why the job was cancelled while it waited for the next one
//	seed/        what a requeued attempt needs again: token, secrets, packages; gone at the end
package rundir
