package spec

import (
	"regexp"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Defaults of the cluster file that are not zero values.
const (
	DefaultKeep   = units.Duration(7 * 24 * time.Hour)
	DefaultGrace  = units.Duration(3 * time.Second)
	DefaultUpMax  = units.Limit(12 * time.Hour)
	DefaultUpIdle = units.Limit(time.Hour)
	MaxNameLength = 40
	HeadGroupName = "head"
)

// Default fills in what the file leaves out, as documented in the fields' comments. Values that depend on the substrate are filled in
// once s.Launcher is set; then that launcher's section is never nil. Calling it again changes nothing.
func Default(s *ClusterSpec) {
	setDefault(&s.APIVersion, APIVersion)
	setPointer(&s.Gang, true)
	setPointer(&s.Lifetime.Keep, DefaultKeep)
	setPointer(&s.Job.Grace, DefaultGrace)
	setPointer(&s.Job.Restarts.Preempted, units.Unlimited)
	if len(s.Job.Launch.Groups) > 0 {
		setDefault(&s.Job.Launch.PerNode, 1)
	}
	for i := range s.Workers {
		defaultReplicas(&s.Workers[i])
	}
	if fill := SubstrateOf(s.Launcher).Default; fill != nil {
		fill(s)
	}
}

// DefaultUp fills in the limits of a cluster that `up` leaves behind, because users may forget the cluster.
func DefaultUp(s *ClusterSpec) {
	setDefault(&s.Lifetime.Max, DefaultUpMax)
	setDefault(&s.Lifetime.Idle, DefaultUpIdle)
}

func defaultReplicas(g *WorkerGroup) {
	if g.Replicas == nil {
		n := 1
		if g.MinReplicas != nil {
			n = *g.MinReplicas
		}
		g.Replicas = &n
	}
	setPointer(&g.MinReplicas, *g.Replicas)
	setPointer(&g.MaxReplicas, max(*g.Replicas, *g.MinReplicas))
}

// HeadOnFirstGroup puts the head on the first group unless the file gives the head a node of its own.
func HeadOnFirstGroup(s *ClusterSpec) {
	if len(s.Workers) > 0 && s.Head.On == "" && s.Head.IsEmpty() && !s.Head.Early {
		s.Head.On = s.Workers[0].Name
	}
}

// IsEmpty reports whether nothing is asked for.
func (r *NodeResources) IsEmpty() bool {
	return r.CPUs == 0 && r.Memory.IsZero() && r.GPUs == 0 && r.GPUType == "" && r.Shm.IsZero() && r.ObjectStoreMemory.IsZero() && r.ObjectSpillingDirectory == "" && len(r.Resources) == 0 &&
		len(r.Labels) == 0 && len(r.Env) == 0 &&
		r.Image == "" && r.Sections.isZero()
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func setPointer[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// For returns a copy of the spec with the launcher's defaults, so that equal requests have equal hashes.
func For(s *ClusterSpec, launcher string) *ClusterSpec {
	s = Copy(s)
	s.Launcher = launcher
	Default(s)
	return s
}

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
