package remote

import "strings"

// finders are the variables by which Slurm's commands find their controller and the daemon that vouches for the user (slurm/src/common/read_config.c
// and sack_api.c). SLURM_JWT is not among them: srun does not work with it (slurm.schedmd.com/jwt.html), and before 26.05 sbatch stores it with the
// job. Who has nothing but a token uses slurmrestd.
const finders = "SLURM_CONF SLURM_CONF_SERVER SLURM_SACK_SOCKET"

// Kept are the variables of the login environment that Slurm's commands, and the jobs they submit, start with. All else, secrets among it, would
// be stored by Slurm; and SBATCH_..., SQUEUE_..., SCANCEL_... change what a command does: with SQUEUE_PARTITION it does not see all jobs.
//
// LD_LIBRARY_PATH goes with PATH: programs of modules that are loaded at the login find their libraries by it. What is loaded (LOADEDMODULES) is
// not kept, so that slurm.modules sets all that a module sets.
//
// Kerberos tickets and proxies are what jobs need to reach anything; slurm.keepEnv names more.
const Kept = "PATH LD_LIBRARY_PATH HOME USER LOGNAME SHELL LANG MODULESHOME MODULEPATH LMOD_CMD LMOD_DIR BASH_ENV KRB5CCNAME http_proxy https_proxy no_proxy all_proxy " +
	"HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY " + finders

// These programs of sh are in one line: a csh, which may be the login shell on the other side, takes no line breaks in quotes.
const (
	keepThese = `; do if eval "[ -n \"\${$v+x}\" ]"; then eval "set -- \"$v=\$$v\" \"\$@\""; fi; done; exec env -i "$@"`

	stepEnvironment = `for v in $(env | sed -n "s/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p"); do case " ` + finders + ` " in *" $v "*) ;; ` +
		`*) case $v in SLURM_*|SLURMD_*|_SLURM_*|SBATCH_*|SRUN_*|SALLOC_*|SPANK_*|PMI_*|PMI2_*|PMIX_*) unset "$v";; esac;; esac; done; exec "$@"`
)

// Clean is the command line of one of Slurm's commands in a clean environment; settings NAME=VALUE may stand before it.
func Clean(argv ...string) []string { return CleanWith(nil, argv...) }

// CleanWith also keeps the variables of these names, which are those of variables and nothing else: sh reads them.
func CleanWith(names []string, argv ...string) []string {
	return append([]string{"sh", "-c", "for v in " + strings.Join(KeptWith(names), " ") + keepThese, "sh"}, argv...)
}

// KeptWith are the names of all variables to keep.
func KeptWith(names []string) []string { return append(strings.Fields(Kept), names...) }

// CleanStep is the command line of srun without what another job, or the user for his own commands, has set for it: inside an allocation srun would
// take that one's memory and tasks for what it is asked for (srun(1), INPUT ENVIRONMENT VARIABLES). All else is the command's that it runs.
func CleanStep(argv ...string) []string {
	return append([]string{"sh", "-c", stepEnvironment, "sh"}, argv...)
}
