// Package templates holds the batch script of the Slurm launcher. What `rayctl init` writes is below, in workloads.
package templates

import _ "embed"

// BatchScript is the batch script of the Slurm launcher, a text/template.
//
//go:embed slurm.sh.tmpl
var BatchScript string

// CompanionScript is the batch script of a companion job: a node of an elastic group.
//
//go:embed companion.sh.tmpl
var CompanionScript string
