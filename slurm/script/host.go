package script

import (
	"cmp"
	"path"
	"strings"

	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// HostFile is what Host is called in the run's directory.
const HostFile = "host.sh"

// HostPython runs the keeper and what else needs no Ray, outside of containers: slurm.python, else the nodes' python3 with containers, else Ray's own.
func (p Plan) HostPython() string {
	if slurmspec.InContainer(p.Spec) {
		return cmp.Or(slurmspec.Of(p.Spec).Python, "python3")
	}
	return cmp.Or(slurmspec.Of(p.Spec).Python, p.Python)
}

// OnHost is a command line on a node, outside of containers, that has what modules and setup bring: Python first of all, and what it links against.
func (p Plan) OnHost(argv ...string) []string {
	if p.Host() == "" {
		return argv
	}
	return append([]string{"bash", path.Join(p.Run, HostFile)}, argv...)
}

const (
	// Batch shells are not login shells: `module` may have to be defined first. /etc/profile may set a PATH of its own (Debian's does). What setup
	// calls has the function, too.
	defineModule = `if ! type module >/dev/null 2>&1; then rayctl_path=$PATH; . /etc/profile; PATH=$PATH:$rayctl_path; fi
for rayctl_name in module ml _module_raw; do if declare -F "$rayctl_name" >/dev/null; then export -f "${rayctl_name?}"; fi; done
`
	pythonWorks = ` -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1`
)

// Host is a bash script that loads the modules, and runs its arguments. Where the Python is not there or too old without it, setup goes before
// that: elsewhere it runs once for each node, before Ray. "": there is nothing to load.
func (p Plan) Host() string {
	modules, setup := slurmspec.Of(p.Spec).Modules, p.Spec.Setup
	if slurmspec.InContainer(p.Spec) || slurmspec.Of(p.Spec).Python != "" {
		setup = "" // which is for the container, or brings Ray's Python only
	}
	if len(modules) == 0 && setup == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Written by rayctl. The programs of the nodes outside of containers run this first. It must not read their input or write to their output.\n{\n")
	if len(modules) > 0 {
		b.WriteString(defineModule + "module load")
		for _, m := range modules {
			b.WriteString(" " + quote(m))
		}
		b.WriteString(" || exit\n")
	}
	if setup != "" {
		b.WriteString("if ! " + quote(p.HostPython()) + pythonWorks + "; then set -e; eval " + quote(setup) + "; set +e; fi\n")
	}
	b.WriteString("} </dev/null >&2\n" + `exec "$@"` + "\n")
	return b.String()
}
