package spec

import "strings"

// Variables that rayctl sets for the driver and all that Ray runs in a run. They are reserved: never read as configuration, and not
// allowed in env, job.env and secrets.
const (
	EnvRun           = "RAYCTL_RUN"            // the run's name, the same for all attempts
	EnvCluster       = "RAYCTL_CLUSTER"        // the cluster's name
	EnvAttempt       = "RAYCTL_ATTEMPT"        // the attempt, from 1
	EnvRestartReason = "RAYCTL_RESTART_REASON" // what ended the attempt before: driver, nodeFailure, preempted, timeLimit; empty for the first
	EnvOutputDir     = "RAYCTL_OUTPUT_DIR"     // job.outputDir, the same for all attempts
	EnvSubstrate     = "RAYCTL_SUBSTRATE"      // local, slurm or kuberay
)

// Variables that the keeper and the batch script set for the supervisors (docs/keeper.md).
const (
	EnvGCS        = "RAYCTL_GCS"
	EnvDashboard  = "RAYCTL_DASHBOARD"
	EnvClientPort = "RAYCTL_CLIENT_PORT"
	EnvNodeIP     = "RAYCTL_NODE_IP"
)

// Variables that the client reads besides those of Keys.
const (
	EnvProfile = "RAYCTL_PROFILE" // as --profile
	EnvFile    = "RAYCTL_FILE"    // as -f
	EnvConfig  = "RAYCTL_CONFIG"  // the user's configuration instead of ~/.config/rayctl/config.yaml
)

// ReservedEnv are the RAYCTL_* variables that are set by rayctl and never read as configuration.
func ReservedEnv() []string {
	return []string{EnvRun, EnvCluster, EnvAttempt, EnvRestartReason, EnvOutputDir, EnvSubstrate, EnvGCS, EnvDashboard, EnvClientPort, EnvNodeIP}
}

// ClientEnv are the RAYCTL_* variables that the client reads and that are no keys of the cluster file.
func ClientEnv() []string { return []string{EnvProfile, EnvFile, EnvConfig} }

// ownedEnv are variables outside RAYCTL_* that rayctl sets itself, with what to use instead.
var ownedEnv = map[string]string{
	"RAY_AUTH_MODE":            "rayctl turns token authentication on where Ray has it",
	"RAY_AUTH_TOKEN":           "rayctl makes a token for each cluster",
	"RAY_AUTH_TOKEN_PATH":      "rayctl makes a token for each cluster",
	"RAY_ADDRESS":              "drivers find their cluster by themselves",
	"RAY_JOB_STOP_WAIT_TIME_S": "use job.grace",
}

// envProblem says why name cannot be a variable of the cluster; "" if it can.
func envProblem(name string) (msg, hint string) {
	switch {
	case !envName.MatchString(name):
		return "is not the name of an environment variable", "use letters, digits and _, not beginning with a digit"
	case strings.HasPrefix(name, EnvPrefix):
		return "begins with RAYCTL_, which is reserved for what rayctl sets itself", "choose another name"
	case ownedEnv[name] != "":
		return "is set by rayctl", ownedEnv[name]
	default:
		return "", ""
	}
}
