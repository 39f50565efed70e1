package templates

import _ "embed"

// SlurmScript is the batch script of the Slurm launcher, a text/template.
//
//go:embed slurm.sh.tmpl
var SlurmScript string

// SlurmFiles is the program that serves a site's files to a client, for `python3 -c`.
//
//go:embed slurm_files.py
var SlurmFiles string

// SlurmRelay is the file, among the keeper's, that carries connections over a step's standard streams.
const SlurmRelay = "slurm_relay.py"

// SlurmStart is the file, among the keeper's, that the batch script executes: it makes the attempt's directory and becomes the keeper.
const SlurmStart = "slurm_start.py"
