// Package orders translates the parts of a cluster file that have the same meaning for every launcher's keeper.
package orders

import (
	"cmp"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

const (
	// Lease bounds an uncommitted launch whose client died or was suspended.
	Lease = 2 * time.Minute
	// Start is the default limit of a start; on a loaded machine Ray alone needs minutes.
	Start = 10 * time.Minute
	// Silence is the default limit: longer than the usual outages of name services, networks and overloaded heads.
	Silence = 5 * time.Minute
	// allAtOnce is the default of scaling.upscalingSpeed, as of KubeRay's autoscaler (1.6, upscalingMode). With Ray's own, 1, a group comes node by node.
	allAtOnce = 1000
)

// Lifetime converts the file's limits to the keeper's seconds; start is the substrate's default of lifetime.start, disconnect is Payload.EndOnDisconnect.
func Lifetime(s *spec.ClusterSpec, start, disconnect time.Duration) keeper.Lifetime {
	one, all := keepOutput(&s.Lifetime)
	return keeper.Lifetime{
		Lease: Lease.Seconds(), Start: Seconds(cmp.Or(s.Lifetime.Start, units.Limit(start))), Queue: Seconds(s.Lifetime.Queue), Max: Seconds(s.Lifetime.Max),
		Total: Seconds(s.Lifetime.Total), Idle: Seconds(s.Lifetime.Idle), IdleGPU: Seconds(s.Lifetime.IdleGPU), Disconnect: disconnect.Seconds(),
		Silence: Seconds(cmp.Or(s.Lifetime.Silence, units.Limit(Silence))), Keep: time.Duration(*s.Lifetime.Keep).Seconds(),
		KeepOutput: one, KeepOutputTotal: all,
	}
}

// Defaults of lifetime.keepOutput and keepOutputTotal.
const (
	KeepOutput      = 8 << 20
	KeepOutputTotal = 64 << 20
)

// keepOutput returns how many bytes are kept of the output of each submitted job, and of all.
func keepOutput(l *spec.Lifetime) (one, all int64) {
	one, all = KeepOutput, KeepOutputTotal
	if l.KeepOutput != nil {
		one = l.KeepOutput.Value()
	}
	if l.KeepOutputTotal != nil {
		all = l.KeepOutputTotal.Value()
	} else {
		all = max(all, one)
	}
	return one, all
}

// GPUPeriod is how often a node reports what its GPUs do: a tenth of lifetime.idleGpu, at most half a minute (keeper/rayctl_keeper/node/gpus/gpus.py).
func GPUPeriod(s *spec.ClusterSpec) time.Duration {
	if limit, bound := s.Lifetime.IdleGPU.Bound(); bound {
		return min(30*time.Second, max(500*time.Millisecond, limit/10))
	}
	return 30 * time.Second
}

// Seconds converts a limit to seconds; 0 if there is none.
func Seconds(l units.Limit) float64 {
	d, bound := l.Bound()
	if !bound {
		return 0
	}
	return d.Seconds()
}

// DefaultScalingIdle is how long a node above minReplicas is kept while nothing uses it: Ray's own default (idle_timeout_minutes).
const DefaultScalingIdle = 5 * time.Minute

// Scaling converts the file's; nil if no group is elastic.
func Scaling(s *spec.ClusterSpec) *keeper.Scaling {
	if !s.IsElastic() {
		return nil
	}
	return &keeper.Scaling{Idle: ScalingIdle(s).Seconds(), UpscalingSpeed: cmp.Or(s.Scaling.UpscalingSpeed, allAtOnce), MaxAllocations: s.Scaling.MaxAllocations}
}

// ScalingIdle is how long a node above minReplicas is kept while nothing uses it. Ray has no word for "always": that is a century.
func ScalingIdle(s *spec.ClusterSpec) time.Duration {
	if d, bound := cmp.Or(s.Scaling.Idle, units.Limit(DefaultScalingIdle)).Bound(); bound {
		return d
	}
	return 100 * 365 * 24 * time.Hour
}

// Group converts what means the same for every launcher whose keeper starts the nodes; sizes of nodes are the launcher's.
func Group(g spec.NodeGroup) keeper.Group {
	group := keeper.Group{
		Name: g.Name, Count: g.Min, Resources: g.Resources, ObjectSpillingDirectory: g.ObjectSpillingDirectory, Labels: g.Labels, Env: g.Env,
	}
	if g.Elastic() {
		group.Max, group.Initial = g.Max, g.Count
	}
	return group
}

// Grace is the seconds between SIGTERM and SIGKILL of a driver.
func Grace(s *spec.ClusterSpec) float64 { return time.Duration(*s.Job.Grace).Seconds() }

// OutputDir is RAYCTL_OUTPUT_DIR of the cluster's drivers: the file's, or the fallback.
func OutputDir(s *spec.ClusterSpec, fallback string) string {
	if s.Job.OutputDir != "" {
		return s.Job.OutputDirFor(s.Name)
	}
	return fallback
}

// Job converts the file's job; nil if it has none. outputDir is for jobs without one; ports is the range of ports that nodes may listen on, FIRST-LAST, or empty.
func Job(s *spec.ClusterSpec, outputDir, ports string) *keeper.Job {
	j := s.Job
	if j.Entrypoint == "" {
		return nil
	}
	entrypoint, env := onNodes(s, ports)
	return &keeper.Job{
		Entrypoint: entrypoint, Prepare: j.Prepare, Start: j.Start, SubmissionPrefix: s.Name, Metadata: j.Metadata,
		EntrypointNumCPUs: float64(j.EntrypointCPUs), EntrypointNumGPUs: j.EntrypointGPUs,
		EntrypointMemory: j.EntrypointMemory.Value(), EntrypointResources: j.EntrypointResources,
		EntrypointLabelSelector: j.EntrypointLabelSelector,
		Env:                     env, OutputDir: OutputDir(s, outputDir), Cwd: j.Cwd, CwdOptional: j.CwdOptional, Grace: Grace(s),
		Restarts: keeper.Restarts{
			Driver: int(j.Restarts.Driver), NodeFailure: int(j.Restarts.NodeFailure),
			Preempted: int(*j.Restarts.Preempted), TimeLimit: int(j.Restarts.TimeLimit),
		},
	}
}
