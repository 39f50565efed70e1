// Package slurmspec is Slurm's part of the cluster file: its keys, their defaults and checks.
package slurmspec

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/ignored"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Name is the launcher's name, and the key of its section.
const Name = "slurm"

//go:embed types.go
var source string

// Substrate registers Slurm's part of the cluster file.
var Substrate = spec.Register(&spec.Substrate{
	Name: Name, Title: "Slurm", On: "on Slurm", OtherNames: []string{"sbatch", "srun"}, Order: 1, Source: source,
	Cluster: cluster{}, Node: node{}, Mount: mount{}, GPUType: GPUType{},
	ChosenBySection: true,
	Flags: []spec.Flag{{Name: "slurm-host", Key: "slurm.host", Usage: "Slurm login `HOST`, reached by ssh"},
		{Name: "slurm-job", Key: "slurm.job", Usage: "Slurm `JOB` for the cluster: new, or current (the allocation in which this command runs)"}},
	OtherFlags:    map[string]string{"partition": "slurm.partition", "account": "slurm.account", "qos": "slurm.qos"},
	Default:       fillIn,
	Validate:      validate,
	ValidateMount: validateMount,
	Ignored: func(s *spec.ClusterSpec) []string {
		all := slices.Concat(ignored.Shm(s), ignored.Gang(s, "on Slurm"), ignored.Scaling(s), ignored.IdleGPU(s))
		if !InContainer(s) {
			all = slices.Concat(all, ignored.ReadOnly(s), ignored.Images(s))
		}
		return append(all, aroundUs(s)...)
	},
	HashScope: func(s *spec.ClusterSpec) {
		c := Of(s)
		c.Host, c.Transport, c.SSHOptions, c.RESTURL, c.RESTTokenFile = "", "", nil, "", ""
		if c.Job == NewJob { // the default
			c.Job = ""
		}
	},
	InsteadOf: map[string]string{
		"port": "on Slurm slurm.ports is their range", "address": "on Slurm slurm.network chooses among several", "dashboardhost": "on Slurm slurm.expose changes that",
	},
	SharesFilesystem: func(s *spec.ClusterSpec) bool {
		c := sectionOf(s)
		return c.Host == "" && c.RESTURL == ""
	},
	UsesImage: InContainer,
	ExecHere:  true,
	EarlyHead: true,
	Python:    "the nodes' Python",
})

// Of is the file's section; nil if it has none.
func Of(s *spec.ClusterSpec) *Section {
	if keys := spec.Section[cluster](s.Sections); keys != nil {
		return keys.Slurm
	}
	return nil
}

// sectionOf is a copy of the file's section, empty if it has none.
func sectionOf(s *spec.ClusterSpec) Section {
	if c := Of(s); c != nil {
		return *c
	}
	return Section{}
}

// InContainer reports whether the file's Ray nodes are in containers.
func InContainer(s *spec.ClusterSpec) bool { return sectionOf(s).inContainer() }

func (c Section) inContainer() bool { return c.ContainerRuntime != "" && c.ContainerRuntime != "none" }

// In is a ClusterSpec's Sections with this section.
func In(c *Section) spec.Sections { return spec.Sections{Name: &cluster{Slurm: c}} }

// GroupOf is what the head or a group sets itself; nil if nothing.
func GroupOf(s spec.Sections) *Group {
	if keys := spec.Section[node](s); keys != nil {
		return keys.Slurm
	}
	return nil
}

// GroupIn is a NodeResources' Sections with these settings.
func GroupIn(g *Group) spec.Sections { return spec.Sections{Name: &node{Slurm: g}} }

// Source is where a mount's data is on the compute nodes; "" if the file names none.
func Source(s spec.Sections) string {
	if keys := spec.Section[mount](s); keys != nil {
		return keys.Slurm
	}
	return ""
}

// SourceIn is a MountSource's Sections with this path.
func SourceIn(path string) spec.Sections { return spec.Sections{Name: &mount{Slurm: path}} }

// GPUTypeOf is what the site calls a type of GPU, with the defaults, and whether the file gives its GRES type.
func GPUTypeOf(s *spec.ClusterSpec, name string) (t GPUType, gres bool) {
	if keys := spec.Section[GPUType](s.GPUTypes[name].Sections); keys != nil {
		t = *keys
	}
	gres = t.Gres != ""
	t.Gres = cmp.Or(t.Gres, name)
	return t, gres
}

// amds matches what AMD's GPUs are called: in GRES of sites, by ROCm, and by Ray (AMD-Instinct-MI300X-OAM).
var amds = regexp.MustCompile(`(?i)(^|[^a-z])(mi\d{2,3}[a-z]?|gfx\d+[a-z]?|amd|instinct|radeon)([^a-z]|$)`)

// VendorOf is who made a type of GPU: nvidia, amd or other. "": any type.
func VendorOf(s *spec.ClusterSpec, name string) string {
	t, _ := GPUTypeOf(s, name)
	switch {
	case t.Vendor != "":
		return t.Vendor
	case amds.MatchString(name), amds.MatchString(t.Gres), amds.MatchString(s.GPUTypes[name].AcceleratorType):
		return "amd"
	default:
		return "nvidia"
	}
}

// For returns a group's settings: the group's values override the cluster's section.
func For(s *spec.ClusterSpec, g spec.NodeGroup) Group {
	out, own := sectionOf(s).Group, GroupOf(g.Sections)
	if own == nil {
		return out
	}
	for _, p := range [][2]*string{
		{&out.Partition, &own.Partition}, {&out.Account, &own.Account}, {&out.QOS, &own.QOS},
		{&out.Reservation, &own.Reservation}, {&out.Constraint, &own.Constraint}, {&out.Nodelist, &own.Nodelist},
		{&out.Exclude, &own.Exclude}, {&out.Switches, &own.Switches},
	} {
		if *p[1] != "" {
			*p[0] = *p[1]
		}
	}
	if own.Exclusive != nil {
		out.Exclusive = own.Exclusive
	}
	if own.RequestMemory != nil {
		out.RequestMemory = own.RequestMemory
	}
	out.ExtraArgs = slices.Concat(out.ExtraArgs, own.ExtraArgs)
	return out
}

func fillIn(s *spec.ClusterSpec) {
	if Of(s) == nil {
		s.Sections = s.Sections.With(Name, &cluster{Slurm: &Section{}})
	}
	c := Of(s)
	c.Transport = cmp.Or(c.Transport, "auto")
	if c.Job == CurrentJob && *s.Job.Restarts.Preempted == units.Unlimited { // the default
		s.Job.Restarts.Preempted = new(units.Count)
	}
	c.ContainerRuntime = cmp.Or(c.ContainerRuntime, "none")
	c.NodeLogs = cmp.Or(c.NodeLogs, "onFailure")
	if InContainer(s) {
		c.ContainerImage = cmp.Or(c.ContainerImage, s.Image)
	}
	spec.HeadOnFirstGroup(s)
}
