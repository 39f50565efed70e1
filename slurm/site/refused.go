package site

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
)

// refusals are sbatch's errors, what they mean for the user, and whose fault they are. Texts: slurm/src/common/slurm_errno.c.
var refusals = []struct {
	said, hint string
	code       int
}{
	{"invalid partition", "correct slurm.partition; `sinfo -s` lists the partitions", runstate.CodeSpec},
	{"Invalid account", "correct slurm.account; `sacctmgr show assoc user=$USER` lists yours", runstate.CodeSpec},
	{"Invalid qos", "correct slurm.qos", runstate.CodeSpec},
	{"Requested node configuration is not available", "no node has what a worker asks for: lower cpus, memory or gpus, or correct slurm.constraint", runstate.CodeSpec},
	{"Requested node config is not available", "no node has what a worker asks for: lower cpus, memory or gpus, or correct slurm.constraint", runstate.CodeSpec},
	{"Node count specification invalid", "lower the number of workers: the partition does not have or allow so many nodes", runstate.CodeSpec},
	{"More processors requested than permitted", "lower the number of workers or their cpus", runstate.CodeSpec},
	{"Requested time limit is invalid", "lower lifetime.max to what the partition allows", runstate.CodeSpec},
	{"Time limit specification required", "set lifetime.max: the site takes no jobs without a time limit", runstate.CodeSpec},
	{"Incompatible begin and deadline", "raise lifetime.queue above the time until slurm.begin, or leave one of them out", runstate.CodeSpec},
	{"Invalid --begin specification", "correct slurm.begin, for example now+1hour or 2027-01-31T18:00", runstate.CodeSpec},
	{"for --switches", "correct slurm.switches", runstate.CodeSpec},
	{"Invalid --", "correct slurm.extraArgs", runstate.CodeSpec},
	{"Invalid Trackable RESource", "correct gpuType or gpus; `sinfo -o %G` shows what there is", runstate.CodeSpec},
	{"Invalid generic resource", "correct gpuType or gpus; `sinfo -o %G` shows what there is", runstate.CodeSpec},
	{"Invalid feature specification", "correct slurm.constraint; `sinfo -o %f` shows the features", runstate.CodeSpec},
	{"Invalid node name", "correct slurm.nodelist or slurm.exclude", runstate.CodeSpec},
	{"Requested reservation is invalid", "correct slurm.reservation", runstate.CodeSpec},
	{"Job dependency problem", "correct slurm.dependency", runstate.CodeSpec},
	{"Memory specification can not be satisfied", "lower the workers' memory", runstate.CodeSpec},
	{"Memory required by task is not available", "lower the workers' memory", runstate.CodeSpec},
	{"Job violates accounting/QOS policy", "ask for less, or choose another slurm.qos or slurm.account", runstate.CodePermission},
	{"User's group not permitted to use this partition", "choose another slurm.partition", runstate.CodePermission},
	{"Access/permission denied", "ask your site's administrators", runstate.CodePermission},
	{"Required partition not available", "choose another slurm.partition, or wait until it takes jobs", runstate.CodeSpec},
	{"Requested partition configuration not available", "choose another slurm.partition, or ask for less", runstate.CodeSpec},
	{"unrecognized option", "correct slurm.extraArgs", runstate.CodeSpec},
	{"Invalid license", "correct --licenses in slurm.extraArgs; `scontrol show licenses` lists them", runstate.CodeSpec},
	{"Invalid wckey", "correct --wckey in slurm.extraArgs; `sacctmgr show wckey` lists yours", runstate.CodeSpec},
	{"Unspecified error", "the site has its own rules for jobs: set what it requires in slurm.comment or slurm.extraArgs (--wckey, --licenses, ...), and slurm.requestMemory: false if it forbids --mem", runstate.CodeSpec},
	{"invalid entry for --cluster", "correct slurm.cluster; `sacctmgr show cluster` lists the clusters", runstate.CodeSpec},
	{"problem talking to the database", "try again when slurmdbd answers: it knows where the cluster of slurm.cluster, or of a federation, is", runstate.CodeUnreachable},
	{"Slurm temporarily unable to accept job", "try again later", runstate.CodeUnreachable},
}

// Refused puts sbatch's refusal into a sentence.
func (site *Site) Refused(name string, err error) error {
	var failed *controller.CommandError
	var known *launcher.ExitError
	if errors.As(err, &known) || !errors.As(err, &failed) {
		return err
	}
	for _, r := range refusals {
		if strings.Contains(strings.ToLower(failed.Said), strings.ToLower(r.said)) {
			return launcher.Fail(r.code, err, r.hint, "Slurm refuses %s: %s", name, failed.Said)
		}
	}
	if NotInstalled(err) {
		return site.NoSlurm(err)
	}
	return launcher.Fail(runstate.CodeStartFailed, err, "change what Slurm names; `rayctl doctor` asks Slurm again, without a launch", "Slurm refuses %s: %v", name, failed)
}

// NotInstalled reports whether a command is not there: 127 is what shells and env exit with then (POSIX, env, "Exit Status").
func NotInstalled(err error) bool {
	var exit *exec.ExitError
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) || errors.As(err, &exit) && exit.ExitCode() == 127
}

// NoSlurm is the error of a site without Slurm's commands.
func (site *Site) NoSlurm(err error) error {
	return launcher.Fail(runstate.CodeConfig, err, "set slurm.host to a login node, or put Slurm's commands into PATH", "there is no Slurm on %s", site.Runner)
}
