package templates

import _ "embed"

// SlurmScript is the batch script of the Slurm launcher, a text/template.
//
//go:embed slurm.sh.tmpl
var SlurmScript string

//go:embed slurm_files.py
var slurmFiles string

//go:embed slurm_after.py
var slurmAfter string

// SlurmFiles is the program that serves a site's files to a client, for `python3 -c`.
var SlurmFiles = slurmAfter + "\n" + slurmFiles

// SlurmRelay is the file, among the keeper's, that carries connections over a step's standard streams.
const SlurmRelay = "slurm_relay.py"

// SlurmBatch is the file, among the keeper's, that the batch script executes: it starts slurm_start.py, which makes the attempt's directory and becomes
// the keeper.
const SlurmBatch = "slurm_batch.py"

// SlurmExec is the file, among the keeper's, that runs a command in a step and passes on what it writes.
const SlurmExec = "slurm_exec.py"
