package runstate

import "slices"

// Exit codes of rayctl itself; `run`, `submit` and `logs -f` otherwise exit with the driver's own code (128+signal).
// They follow sysexits.h where it has one, and timeout(1) for 124. ExitCodes has their meanings.
const (
	CodeUsage        = 64
	CodeSpec         = 65
	CodeUnreachable  = 69
	CodeInternal     = 70
	CodeStartFailed  = 73
	CodeOutputLost   = 74
	CodeQueueTimeout = 75
	CodeLost         = 76
	CodePermission   = 77
	CodeConfig       = 78
	CodeGPUsIdle     = 79
	CodeTimeLimit    = 124
	CodeInterrupted  = 130
)

// ExitCode is one of rayctl's own exit codes.
type ExitCode struct {
	Code    int
	Meaning string
}

// ExitCodes are all of them, in ascending order.
var ExitCodes = []ExitCode{
	{CodeUsage, "wrong command line"},
	{CodeSpec, "wrong cluster file, no such cluster or job, a name taken by another spec"},
	{CodeUnreachable, "Slurm, Kubernetes or the dashboard does not answer, or its Ray cannot do this"},
	{CodeInternal, "a bug of rayctl"},
	{CodeStartFailed, "the cluster, the driver or an application could not be started"},
	{CodeOutputLost, "stdout did not take all of the output (a full disk, a closed pipe), and nothing else went wrong"},
	{CodeQueueTimeout, "`lifetime.queue` passed"},
	{CodeLost, "the cluster was lost while the driver ran"},
	{CodePermission, "not permitted; the message names what is missing"},
	{CodeConfig, "this machine's configuration is wrong: no such secret, broken Python, a port in use"},
	{CodeGPUsIdle, "all GPUs did nothing for `lifetime.idleGpu`"},
	{CodeTimeLimit, "`lifetime.max` or `lifetime.total` passed"},
	{CodeInterrupted, "interrupted, or ended by somebody"},
}

// Causes of the end of a cluster.
const (
	CauseSucceeded      = "succeeded"
	CauseDriverFailed   = "driver-failed"
	CauseDriverSignaled = "driver-signaled"
	CauseInterrupted    = "interrupted"
	CauseDown           = "down"
	CauseDisconnected   = "disconnected"
	CauseAbandoned      = "abandoned"
	CauseIdle           = "idle"
	CauseIdleGPU        = "idle-gpu"
	CauseMax            = "max"
	CauseTotal          = "total"
	CauseTimeLimit      = "time-limit"
	CauseQueue          = "queue"
	CauseStartFailed    = "start-failed"
	CausePackageFailed  = "package-failed"
	CauseSubmitFailed   = "submit-failed"
	CauseLost           = "lost"
	CausePreempted      = "preempted"
	CausePrepareFailed  = "prepare-failed"
)

// Cause is what is known of one cause of an end, however the single run ended.
type Cause struct {
	Name string
	// Origin: the exit code is the own one of a program of the user's, OriginDriver or OriginPrepare. Else it is Code, one of rayctl's.
	Origin string
	Code   int
	// Retryable: the same command may succeed if repeated, where nothing more is known of the end. The substrate failed, not the job.
	Retryable bool
	// Restarts is the key of job.restarts that limits how many attempts may follow one that ended so; "": none may.
	Restarts string
	Meaning  string
}

// Causes are all of them.
var Causes = []Cause{
	{Name: CauseSucceeded, Origin: OriginDriver, Meaning: "the driver exited with code 0"},
	{Name: CauseDriverFailed, Origin: OriginDriver, Restarts: "driver", Meaning: "the driver exited with another code"},
	{Name: CauseDriverSignaled, Origin: OriginDriver, Meaning: "a signal ended the driver: 128 and its number"},
	{Name: CausePrepareFailed, Origin: OriginPrepare, Meaning: "`job.prepare` exited with another code than 0, or a signal ended it: 128 and its number; the driver was not started"},
	{Name: CauseInterrupted, Code: CodeInterrupted, Meaning: "Ctrl-C or a signal to the client or the keeper, or a command of Slurm or Kubernetes that ends it, such as `scancel`"},
	{Name: CauseDown, Code: CodeInterrupted, Meaning: "`rayctl down`"},
	{Name: CauseDisconnected, Code: CodeInterrupted, Retryable: true, Meaning: "no client renewed the run for as long as `--end-on-disconnect` allows"},
	{Name: CauseAbandoned, Code: CodeInterrupted, Retryable: true, Meaning: "the client ended before the launch was committed"},
	{Name: CauseIdle, Code: 0, Meaning: "`lifetime.idle` passed"},
	{Name: CauseIdleGPU, Code: CodeGPUsIdle, Meaning: "`lifetime.idleGpu` passed: all GPUs did nothing"},
	{Name: CauseMax, Code: CodeTimeLimit, Meaning: "`lifetime.max` passed"},
	{Name: CauseTotal, Code: CodeTimeLimit, Meaning: "`lifetime.total` passed"},
	{Name: CauseTimeLimit, Code: CodeTimeLimit, Restarts: "timeLimit", Meaning: "the time limit of the Slurm job passed"},
	{Name: CauseQueue, Code: CodeQueueTimeout, Retryable: true, Meaning: "`lifetime.queue` passed before the gang was admitted"},
	{Name: CauseStartFailed, Code: CodeStartFailed, Retryable: true, Meaning: "the cluster could not be started; not retryable where the same request can never start"},
	{Name: CausePackageFailed, Code: CodeStartFailed, Meaning: "the working directory or a module could not be given to Ray"},
	{Name: CauseSubmitFailed, Code: CodeStartFailed, Meaning: "Ray did not accept the job, or could not prepare its runtime environment"},
	{Name: CauseLost, Code: CodeLost, Retryable: true, Restarts: "nodeFailure", Meaning: "head, node or keeper was lost, and `job.restarts` had no attempt left"},
	{Name: CausePreempted, Code: CodeLost, Retryable: true, Restarts: "preempted", Meaning: "Slurm or Kubernetes took the nodes for somebody else, and `job.restarts` had no attempt left"},
}

// CauseOf finds a cause of rayctl's own ends; ok is false where a program's own exit code counts, and for what is no cause.
func CauseOf(name string) (c Cause, ok bool) {
	i := slices.IndexFunc(Causes, func(c Cause) bool { return c.Name == name })
	if i < 0 || Causes[i].Origin != "" {
		return Cause{}, false
	}
	return Causes[i], true
}

// CodeOf is the exit code of `rayctl run` for a cause of rayctl's own; 0 for others.
func CodeOf(cause string) int {
	c, _ := CauseOf(cause)
	return c.Code
}
