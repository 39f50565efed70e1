package spec

import "time"

// Defaults of the cluster file that are not zero values.
const (
	DefaultKeep    = Duration(7 * 24 * time.Hour)
	DefaultGrace   = Duration(3 * time.Second)
	DefaultUpMax   = Limit(12 * time.Hour)
	DefaultUpIdle  = Limit(time.Hour)
	MaxNameLength  = 40
	HeadGroupName  = "head"
	defaultImage   = "rayproject/ray:"
	defaultGPUName = "nvidia.com/gpu"
)

// Default fills in what the file leaves out, as documented in the fields' comments. Values that depend on the substrate are filled in
// once s.Launcher is set; then that launcher's section is never nil. Calling it again changes nothing.
func Default(s *ClusterSpec) {
	setDefault(&s.APIVersion, APIVersion)
	setPointer(&s.Gang, true)
	setPointer(&s.Lifetime.Keep, DefaultKeep)
	setPointer(&s.Job.Grace, DefaultGrace)
	setPointer(&s.Job.Restarts.Preempted, Unlimited)
	for i := range s.Workers {
		defaultReplicas(&s.Workers[i])
	}
	switch s.Launcher {
	case LauncherSlurm:
		defaultSlurm(s)
	case LauncherKubeRay:
		defaultKubeRay(s)
	case LauncherLocal:
		setPointer(&s.Local, Local{})
		s.Ray.Python = ExpandHome(s.Ray.Python)
		s.Job.OutputDir = ExpandHome(s.Job.OutputDir)
		defaultHeadOn(s)
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

func defaultSlurm(s *ClusterSpec) {
	setPointer(&s.Slurm, Slurm{})
	setDefault(&s.Slurm.Transport, "auto")
	setDefault(&s.Slurm.ContainerRuntime, "none")
	setDefault(&s.Slurm.NodeLogs, "onFailure")
	if s.Slurm.ContainerRuntime != "none" {
		setDefault(&s.Slurm.ContainerImage, s.Image)
	}
	defaultHeadOn(s)
}

func defaultKubeRay(s *ClusterSpec) {
	setPointer(&s.KubeRay, KubeRay{})
	setDefault(&s.KubeRay.Scheduler, "auto")
	setDefault(&s.KubeRay.Keeper, "auto")
	if s.Image == "" && s.Ray.Version != "" && s.KubeRay.RayCluster == nil {
		s.Image = defaultImage + s.Ray.Version
	}
	setDefault(&s.KubeRay.KeeperImage, s.Image)
}

// defaultHeadOn puts the head on the first group unless the file gives the head a node of its own.
func defaultHeadOn(s *ClusterSpec) {
	if len(s.Workers) > 0 && s.Head.On == "" && s.Head.isZero() {
		s.Head.On = s.Workers[0].Name
	}
}

func (r *NodeResources) isZero() bool {
	return r.CPUs == 0 && r.Memory.IsZero() && r.GPUs == 0 && r.GPUType == "" && r.Shm.IsZero() && len(r.Resources) == 0 &&
		r.Image == "" && r.Slurm == nil && r.KubeRay == nil && r.Patch == nil
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
