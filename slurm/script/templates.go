package script

import _ "embed"

// batchScript is the batch script of the Slurm launcher, a text/template.
//
//go:embed slurm.sh.tmpl
var batchScript string

// companionScript is the batch script of a companion job: a node of an elastic group.
//
//go:embed companion.sh.tmpl
var companionScript string
