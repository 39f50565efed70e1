// Package advise is `rayctl advise`: which control plane a team's work needs, and the launcher and the cluster file for it.
package advise

import "fmt"

// Needs are what the answer depends on.
type Needs struct {
	Nodes             int  `json:"nodes"`             // of one job, at least 1
	TightlyCoupled    bool `json:"tightlyCoupled"`    // the nodes of a job wait for each other, as in all-reduce
	BareMetal         bool `json:"bareMetal"`         // jobs get the machines themselves, without pods
	LongLivedServices bool `json:"longLivedServices"` // something must answer all the time, such as inference
	MultiTenant       bool `json:"multiTenant"`       // several teams share the machines
	PythonNative      bool `json:"pythonNative"`      // the pipeline is Python that calls tasks and actors
	Edge              bool `json:"edge"`              // small machines at the edge, or one for development
}

// Control planes.
const (
	kubernetes = "kubernetes"
	k3s        = "k3s"
	ray        = "ray"
	slurm      = "slurm" // also the launcher
)

// Launchers besides it.
const (
	kuberay = "kuberay"
	local   = "local"
)

// Words of the answer, as the guide has them.
const (
	topology  = "topology.conf for rail-aware placement"
	operator  = "GPU Operator"
	gangs     = "Volcano/Kueue/KAI gang scheduler (REQUIRED)"
	partition = "partition nodes: Slurm pool + K8s pool, clear boundary"
)

// Advice is the answer.
type Advice struct {
	Needs
	Primary      string   `json:"primary"`
	Addon        string   `json:"addon"`
	Hybrid       string   `json:"hybrid"`
	GangRequired bool     `json:"gangRequired"` // a scheduler must start all nodes of a job or none
	Launcher     string   `json:"launcher"`     // of rayctl
	Reasons      []string `json:"reasons"`
	Site         *Site    `json:"site,omitempty"` // where the launcher would run it from here; nil: on this machine
	ClusterFile  string   `json:"clusterFile"`    // the keys of rayctl.yaml that the advice is about
	Next         string   `json:"next"`           // the command line that writes the files; launches them, if the file is right as it is
	Launch       string   `json:"launch"`         // the one that launches them, with the keys that the template does not take

	template string
}

// For decides. Several nodes that wait for each other must start together: half of them would hold GPUs and do nothing. Slurm starts a job's nodes so by itself,
// Kubernetes and k3s only with a gang scheduler.
func For(n Needs) Advice {
	a := Advice{Needs: n}
	under := kubernetes
	if n.Edge {
		under = k3s
	}
	together := n.TightlyCoupled && n.Nodes >= 2
	switch {
	case together && n.BareMetal:
		a.bySlurm()
	case n.PythonNative:
		a.Primary, a.Addon = ray, "KubeRay on "+under
		a.because("the pipeline is Python with tasks and actors: Ray runs it, and KubeRay brings Ray to %s", under)
	default:
		a.Primary, a.Addon = under, operator
		a.because("nothing asks for another scheduler: pods on %s, with the GPU Operator for drivers and device plugin", under)
	}
	if n.Edge && a.Primary != slurm {
		a.because("k3s is Kubernetes for small machines; rayctl treats both alike")
	}
	if together && a.Primary != slurm {
		a.GangRequired = true
		a.Addon = gangs + " + " + a.Addon
		a.because("%d nodes wait for each other: %s starts pods one by one, so a gang scheduler must start all of a job or none", n.Nodes, under)
		if a.Primary == ray && under == k3s {
			a.because("the guide's table leaves the gang scheduler out for Ray on k3s, against its own rule; the rule is kept here")
		}
	}
	if n.MultiTenant {
		a.because("several teams share the machines: give each a queue with a quota (Volcano Queue, Kueue LocalQueue, Slurm account), which kuberay.queue, a label or slurm.account of rayctl.yaml names")
	}
	a.launch()
	return a
}

func (a *Advice) bySlurm() {
	a.Primary, a.Addon = slurm, topology
	a.because("%d nodes wait for each other, on bare metal: Slurm allocates all nodes of a job at once, near each other by topology.conf", a.Nodes)
	if a.LongLivedServices {
		a.Hybrid = partition
		a.because("services must answer all the time, and a Slurm job ends: they belong on Kubernetes, on nodes of their own")
	}
	if a.PythonNative {
		a.because("Ray runs inside the allocation: rayctl starts it there")
	}
}

func (a *Advice) because(format string, args ...any) {
	a.Reasons = append(a.Reasons, fmt.Sprintf(format, args...))
}

// launch adds what rayctl does for it: the launcher, and the template to begin with. The control plane is for all that runs on the machines; a single machine that
// nobody shares runs rayctl's cluster without one.
func (a *Advice) launch() {
	a.Launcher = kuberay
	switch {
	case a.Primary == slurm:
		a.Launcher = slurm
	case a.Edge && a.Nodes == 1 && !a.MultiTenant:
		a.Launcher = local
		a.because("one machine needs no control plane for rayctl: the launcher local starts Ray on it, and where %s is on it, --launcher kuberay runs the same files in pods", k3s)
	}
	a.template = "basic"
	switch {
	case a.LongLivedServices && a.Launcher != slurm:
		a.template = "serve"
	case a.TightlyCoupled && a.PythonNative:
		a.template = "train"
	case a.TightlyCoupled:
		a.template = "torchrun"
	}
}
