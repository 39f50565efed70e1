package spec

import (
	"regexp"
	"slices"
	"strings"
)

// runSuffix is the length of a run's suffix: a dash and five characters.
const runSuffix = 6

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// NameFrom makes a cluster's name from any text, such as a folder's name: a DNS label with room for a run's suffix.
func NameFrom(text string) string {
	name := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > MaxNameLength-runSuffix {
		name = strings.TrimRight(name[:MaxNameLength-runSuffix], "-")
	}
	if name == "" {
		return "ray"
	}
	return name
}

// Nearest returns the candidate that s was most likely meant to be, or "" if none is near: at most a third of its letters differ.
// Case, dashes and underscores are ignored.
func Nearest(s string, candidates []string) string {
	fold := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	want, best := fold(s), ""
	bestDistance := max(1, len([]rune(want))/3) + 1
	for _, c := range candidates {
		if d := editDistance([]rune(want), []rune(fold(c))); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance is the number of letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
func editDistance(a, b []rune) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

// Variables that rayctl sets for the driver and for everything else that Ray runs in a run. They are reserved: never read as
// configuration, and not allowed in env, job.env and secrets.
const (
	EnvRun           = "RAYCTL_RUN"
	EnvAttempt       = "RAYCTL_ATTEMPT"
	EnvRestartReason = "RAYCTL_RESTART_REASON"
	EnvOutputDir     = "RAYCTL_OUTPUT_DIR"
	EnvSubmissionID  = "RAYCTL_SUBMISSION_ID"
)

// Variables that the client reads besides those of Keys.
const (
	EnvProfile = "RAYCTL_PROFILE"
	EnvFile    = "RAYCTL_FILE"
	EnvConfig  = "RAYCTL_CONFIG"
)

// Variable is an environment variable and what it means.
type Variable struct{ Name, Meaning string }

// DriverEnv are the variables that a driver, its tasks and its actors can rely on.
func DriverEnv() []Variable {
	return []Variable{
		{EnvRun, "the run's name, the same for all attempts"},
		{EnvAttempt, "the number of the attempt, from 1"},
		{EnvRestartReason, "what ended the attempt before, such as driver-failed, lost, preempted or time-limit; empty for the first"},
		{EnvOutputDir, "job.outputDir, the same for all attempts"},
		{EnvSubmissionID, "the id of this attempt's job in Ray's job API"},
	}
}

// ClientEnv are the variables that the client reads and that are no keys of the cluster file.
func ClientEnv() []Variable {
	return []Variable{
		{EnvFile, "the cluster file, as -f"},
		{EnvProfile, "the profile, as --profile"},
		{EnvConfig, "your configuration, instead of rayctl/config.yaml below XDG_CONFIG_HOME or ~/.config"},
	}
}

// internalEnv lists the variables between keeper, batch script and supervisors (keeper/, templates/), which a process of a cluster may inherit.
var internalEnv = []string{
	"RAYCTL_ADVERTISE", "RAYCTL_CLIENT_PORT", "RAYCTL_DASHBOARD", "RAYCTL_GCS", "RAYCTL_FAST_START", "RAYCTL_GCS_WAIT", "RAYCTL_JOB", "RAYCTL_MARK",
	"RAYCTL_NODE_DIR", "RAYCTL_NODE_IP", "RAYCTL_RESTARTS", "RAYCTL_ROUND", "RAYCTL_RUN_DIR", "RAYCTL_USER_START_HOOK",
}

// ReservedEnv are the names of the RAYCTL_* variables that are set by rayctl and never read as configuration.
func ReservedEnv() []string {
	names := slices.Clone(internalEnv)
	for _, v := range DriverEnv() {
		names = append(names, v.Name)
	}
	return names
}

// ownedEnv maps variables outside RAYCTL_* that rayctl sets itself to a hint what to use instead.
var ownedEnv = map[string]string{
	"RAY_AUTH_MODE":            "rayctl turns token authentication on where Ray has it",
	"RAY_AUTH_TOKEN":           "rayctl makes a token for each cluster",
	"RAY_AUTH_TOKEN_PATH":      "rayctl makes a token for each cluster",
	"RAY_ADDRESS":              "drivers find their cluster by themselves",
	"RAY_JOB_STOP_WAIT_TIME_S": "use job.grace",
}

// envProblem returns why name cannot be a variable of the cluster; "" if it can.
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
