package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// saying is the sentence for a Slurm reason. Slurm's own list: squeue(1) JOB REASON CODES, and slurm/src/common/job_state_reason.c.
type saying struct {
	message string
	hint    string
}

var sayings = map[string]saying{
	"Priority":                 {"jobs of higher priority are ahead of it in the queue", "wait, or ask for fewer nodes or less time so that backfill can place it earlier"},
	"Resources":                {"the nodes it asks for are in use", "wait, or ask for less"},
	"BeginTime":                {"its earliest begin time has not come (also for some seconds after a requeue)", ""},
	"Dependency":               {"a job that it depends on has not ended", ""},
	"DependencyNeverSatisfied": {"a job that it depends on ended in a way that never lets it start", "end it with `rayctl down`, and launch with another slurm.dependency"},
	"JobHeldUser":              {"it is held by its user", "`scontrol release` releases it"},
	"JobHeldAdmin":             {"it is held by an administrator", "ask your site's administrators"},
	"PartitionDown":            {"the partition is down", "choose another slurm.partition, or wait"},
	"PartitionInactive":        {"the partition takes no jobs to run now", "choose another slurm.partition, or wait"},
	"PartitionNodeLimit":       {"it asks for more nodes than the partition allows, or has in service", "wait, lower the number of workers, or choose another slurm.partition"},
	"PartitionTimeLimit":       {"it asks for more time than the partition allows", "lower lifetime.max, or choose another slurm.partition"},
	"PartitionConfig":          {"the partition cannot give what it asks for", "ask for less, or choose another slurm.partition"},
	"ReqNodeNotAvail":          {"a node that it needs is not available (down, drained or reserved)", "leave slurm.nodelist out, or wait"},
	"NodeDown":                 {"a node that it needs is down", "wait, or leave slurm.nodelist out"},
	"BadConstraints":           {"no node can ever meet its constraints", "correct slurm.constraint, or ask for less per worker"},
	"Reservation":              {"its reservation has not begun, or is full", ""},
	"ReservationDeleted":       {"its reservation was deleted", "launch with another slurm.reservation"},
	"Licenses":                 {"it waits for a licence", ""},
	"Cleaning":                 {"an earlier run of the job is still being cleaned up", ""},
	"Prolog":                   {"the nodes' prolog is still running", ""},
	"JobLaunchFailure":         {"the job could not be launched on its nodes", "`rayctl doctor` checks the nodes"},
	"JobHoldMaxRequeue":        {"it was requeued too often", "`scontrol release` releases it"},
	"RaisedSignal":             {"it was ended by a signal", ""},
	"InvalidAccount":           {"its account is not valid", "correct slurm.account; `sacctmgr show assoc user=$USER` lists yours"},
	"InvalidQOS":               {"its QOS is not valid", "correct slurm.qos"},
	"QOSNotAllowed":            {"its QOS is not allowed with this account or partition", "choose another slurm.qos"},
	"AccountNotAllowed":        {"its account may not use this partition", "choose another slurm.account or slurm.partition"},
	"QOSGrpNodeLimit":          {"all nodes that its QOS may use together are in use", "wait, or choose another slurm.qos"},
	"MaxMemPerLimit":           {"it asks for more memory per CPU or node than allowed", "lower the workers' memory"},
	"DeadLine":                 {"it cannot end before its deadline", "raise lifetime.queue, or lower lifetime.max"},
	"Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": {"the nodes that it needs are down, drained, or reserved for partitions of higher priority", "wait, or choose another slurm.partition"},
	"job_requeued_in_held_state":              {"it was requeued and is held", "`scontrol release` releases it"},
	"launch_failed_requeued_held":             {"its launch failed; Slurm requeued and holds it", "`rayctl down` ends it; `rayctl doctor` checks the nodes"},
	"user_env_retrieval_failed_requeued_held": {"the user's environment could not be read on the node; Slurm holds the job", "`rayctl down` ends it; notify your site's administrators"},
}

// limits are families of reasons: the first matching prefix is reported with the limit's name.
var limits = []struct{ prefix, who, hint string }{
	{"QOSMax", "a limit of the QOS for one job or user", "wait for your other jobs, ask for less, or choose another slurm.qos"},
	{"QOSGrp", "a limit of the QOS for all its jobs together", "wait, or choose another slurm.qos"},
	{"QOSMin", "the QOS' least size of a job", "ask for more, or choose another slurm.qos"},
	{"QOS", "a limit of the QOS", "choose another slurm.qos"},
	{"AssocGrp", "a limit of the account for all its jobs together", "wait, or choose another slurm.account"},
	{"AssocMax", "a limit of the account for one job or user", "ask for less, or choose another slurm.account"},
	{"Assoc", "a limit of the account", "choose another slurm.account"},
	{"MaxSubmit", "the number of jobs you may have", "end other jobs"},
}

// Explain puts a waiting job's reason into a sentence with a next step. An unknown reason is returned as Slurm gives it.
func Explain(j Job) runstate.Reason {
	code := strings.Trim(j.Reason, "()")
	if code == "" {
		return runstate.Reason{Code: "Pending", Message: "the job waits to be scheduled"}
	}
	name, rest := reasonName(code)
	r := runstate.Reason{Code: name}
	if s, ok := sayings[name]; ok {
		r.Message, r.Hint = s.message, s.hint
		if rest != "" {
			r.Message += " (" + rest + ")"
		}
	} else {
		r.Message, r.Hint = limit(code)
	}
	if j.Detail != "" {
		r.Message += ": " + j.Detail
	}
	return r
}

// reasonName is a reason as Slurm's JSON has it: squeue's text has spaces in some, and more words behind a comma in others ("ReqNodeNotAvail,
// UnavailableNodes:node[1-2]").
func reasonName(code string) (name, rest string) {
	if whole := strings.ReplaceAll(code, " ", "_"); sayings[whole].message != "" {
		return whole, ""
	}
	name, rest, _ = strings.Cut(code, ",")
	return strings.ReplaceAll(strings.TrimSpace(name), " ", "_"), strings.TrimSpace(rest)
}

func limit(code string) (message, hint string) {
	for _, l := range limits {
		if strings.HasPrefix(code, l.prefix) {
			return fmt.Sprintf("it has reached %s (%s)", l.who, code), l.hint
		}
	}
	return fmt.Sprintf("Slurm's reason is %s", code), ""
}

// Never reports whether a job that waits for this reason can never start as it is.
func Never(reason string) bool {
	name, _ := reasonName(reason)
	return slices.Contains(never, name)
}

var never = []string{
	"DependencyNeverSatisfied", "BadConstraints", "PartitionTimeLimit", "InvalidAccount", "InvalidQOS", "ReservationDeleted", "launch_failed_requeued_held",
}

// NodeLimit reports whether a job waits because of its number of nodes. Slurm gives this reason, too, while nodes are down or drained (squeue(1)).
func NodeLimit(reason string) bool {
	name, _ := reasonName(reason)
	return name == "PartitionNodeLimit"
}
