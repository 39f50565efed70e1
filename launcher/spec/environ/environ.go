// Package environ names the environment variables that rayctl reads, sets and reserves.
package environ

import (
	"regexp"
	"slices"
	"strings"
)

// Prefix is the prefix of configuration variables and of variables that rayctl sets itself.
const Prefix = "RAYCTL_"

var pattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)

// Variables that rayctl sets for the driver and for everything else that Ray runs in a run. They are reserved: never read as
// configuration, and not allowed in env, job.env and secrets.
const (
	Run           = "RAYCTL_RUN"
	Attempt       = "RAYCTL_ATTEMPT"
	RestartReason = "RAYCTL_RESTART_REASON"
	OutputDir     = "RAYCTL_OUTPUT_DIR"
	SubmissionID  = "RAYCTL_SUBMISSION_ID"
	EndsAt        = "RAYCTL_ENDS_AT"
	GPUNodes      = "RAYCTL_GPU_NODES"
	GPUsPerNode   = "RAYCTL_GPUS_PER_NODE"
)

// RAYCTL_* variables that the client reads and that set no key of the cluster file.
const (
	Profile = "RAYCTL_PROFILE"
	File    = "RAYCTL_FILE"
	Config  = "RAYCTL_CONFIG"
)

// EnvBin is the directory that `rayctl env` has put first in PATH of the user's shell.
const EnvBin = "RAYCTL_ENV_BIN"

// Variable is an environment variable and what it means.
type Variable struct{ Name, Meaning string }

// Driver are the variables that rayctl sets for a driver, its tasks and its actors. Those of an attempt are set only for the job of a run.
func Driver() []Variable {
	return []Variable{
		{Run, "the name of the run, the same for all attempts, or of the cluster that the job was submitted to"},
		{Attempt, "the number of the attempt, from 1"},
		{RestartReason, "the cause that ended the previous attempt, such as driver-failed, lost, preempted or time-limit; empty for the first"},
		{OutputDir, "job.outputDir, the same for all attempts, and for all jobs on a cluster of `up`. In a RayCluster that you wrote yourself it is set only with job.outputDir, and only for the run's own job"},
		{SubmissionID, "the id of the job, of this attempt's job in a run, in Ray's job API"},
		{EndsAt, "epoch seconds at which the run's end begins at the latest, as known when the driver starts: lifetime.max, lifetime.total, or Slurm's warning before the job's time limit; not set without a limit. MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP, which verl reads to save in time, is the same, unless env or job.env has another"},
		{GPUNodes, "the number of required nodes with GPUs (minReplicas of all groups that have gpus); only for a run's own job"},
		{GPUsPerNode, "the GPUs of each of these nodes; not set if they differ, or if there are none; only for a run's own job"},
	}
}

// Client are the variables that the client reads and that are no keys of the cluster file.
func Client() []Variable {
	return []Variable{
		{File, "the cluster file, as -f"},
		{Profile, "the profile, as --profile"},
		{Config, "your configuration, instead of rayctl/config.yaml below XDG_CONFIG_HOME or ~/.config"},
	}
}

// OfRay are the variables of Ray that the client reads, as `ray job` does.
func OfRay() []Variable {
	return []Variable{
		{"RAY_API_SERVER_ADDRESS", "the dashboard for the commands on jobs and Serve and for top, if neither a cluster nor --address is given. --address overrides it, unlike with Ray's own tools"},
		{"RAY_ADDRESS", "the same, if it is an http or https URL and RAY_API_SERVER_ADDRESS is not set"},
		{"RAY_JOB_HEADERS", "a JSON object of HTTP headers for a dashboard that is given by its address; they override the token's header"},
		{"RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1: packages have also what git ignores"},
		{"RAY_AUTH_TOKEN", "the token for such a dashboard; else the file of RAY_AUTH_TOKEN_PATH, else ~/.ray/auth_token"},
	}
}

// internal lists the variables between keeper, batch script and supervisors (keeper/, templates/), which a process of a cluster may inherit.
var internal = []string{
	"RAYCTL_CLIENT_PORT", "RAYCTL_COMMAND", "RAYCTL_CWD", "RAYCTL_DASHBOARD", "RAYCTL_GCS", "RAYCTL_FAST_START", "RAYCTL_GCS_WAIT", "RAYCTL_HEAD_FILE", "RAYCTL_HOSTFILE", "RAYCTL_INSIDE", "RAYCTL_INSTANCE", "RAYCTL_JOB",
	"RAYCTL_MARK", "RAYCTL_NODE_DIR", "RAYCTL_NODE_IP", "RAYCTL_NODES", "RAYCTL_NODE_CPUS", "RAYCTL_PIPE", "RAYCTL_RANKS", "RAYCTL_RANKS_JOB", "RAYCTL_RESTARTS", "RAYCTL_ROUND", "RAYCTL_RUN_DIR", "RAYCTL_SERIAL", "RAYCTL_UMASK", "RAYCTL_USER_START_HOOK",
	"RAYCTL_WAITING",
	"RAYCTL_WARN_DASHBOARD", "RAYCTL_WARN_KEEPER",
}

// Reserved are the names of the RAYCTL_* variables that are set by rayctl and never read as configuration.
func Reserved() []string {
	names := append(slices.Clone(internal), EnvBin)
	for _, v := range Driver() {
		names = append(names, v.Name)
	}
	return names
}

// owned maps each variable outside RAYCTL_* that rayctl sets itself to a hint that says what to do instead.
var owned = map[string]string{
	"RAY_AUTH_MODE":            "leave it out; rayctl turns token authentication on where Ray has it",
	"RAY_AUTH_TOKEN":           "leave it out; rayctl makes a token for each cluster",
	"RAY_AUTH_TOKEN_PATH":      "leave it out; rayctl makes a token for each cluster",
	"RAY_ADDRESS":              "leave it out; drivers find their cluster without it",
	"RAY_JOB_STOP_WAIT_TIME_S": "use job.grace",
	"RAY_OVERRIDE_LABELS":      "use labels of the head or of a worker group",
}

// Problem returns why a name cannot be a variable of the cluster; "" if it can.
func Problem(variable string) (msg, hint string) {
	switch {
	case !pattern.MatchString(variable):
		return "is not the name of an environment variable", "use letters, digits and _, not beginning with a digit"
	case strings.HasPrefix(variable, Prefix):
		return "begins with RAYCTL_, which is reserved for what rayctl sets itself", "choose another name"
	case owned[variable] != "":
		return "is set by rayctl", owned[variable]
	default:
		return "", ""
	}
}
