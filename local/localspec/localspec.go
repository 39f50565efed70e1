// Package localspec is this machine's part of the cluster file: its keys, their defaults and checks.
package localspec

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
	"github.com/rayctl/rayctl/launcher/spec/ignored"
)

// Name is the launcher's name, and the key of its section.
const Name = "local"

//go:embed types.go
var source string

// Substrate registers this machine's part of the cluster file.
var Substrate = spec.Register(&spec.Substrate{
	Name: Name, Title: "Local", On: "on this machine", OtherNames: []string{"localhost", "here", "process"}, Order: 3, Source: source,
	Cluster: cluster{}, Mount: mount{},
	Fallback:         true,
	Default:          fillIn,
	Validate:         validate,
	Unused:           unused,
	PackagesKey:      "local.packages",
	Environment:      environment,
	Ignored:          IgnoredHere,
	Here:             Here,
	SharesFilesystem: func(*spec.ClusterSpec) bool { return true },
	ExecHere:         true,
	EarlyHead:        true,
	Python:           "the environment of ray.python",
})

// Of is the file's section; nil if it has none.
func Of(s *spec.ClusterSpec) *Section {
	if keys := spec.Section[cluster](s.Sections); keys != nil {
		return keys.Local
	}
	return nil
}

// In is a ClusterSpec's Sections with this section.
func In(c *Section) spec.Sections { return spec.Sections{Name: &cluster{Local: c}} }

// Source is the directory of a mount; "" if the file has none.
func Source(s spec.Sections) string {
	if keys := spec.Section[mount](s); keys != nil {
		return keys.Local
	}
	return ""
}

// SourceIn is a MountSource's Sections with this directory.
func SourceIn(path string) spec.Sections { return spec.Sections{Name: &mount{Local: path}} }

// Packages are those that environments which rayctl makes for the file have beside Ray, once their files are read.
func Packages(s *spec.ClusterSpec) []string {
	if c := Of(s); c != nil {
		return c.Packages.Packages
	}
	return nil
}

// environment is what an environment that rayctl makes for the file has beside Ray; nil if rayctl makes none, or the section is missing.
func environment(s *spec.ClusterSpec) *spec.Requirements {
	if c := Of(s); c != nil && s.Ray.Python == "" {
		return &c.Packages
	}
	return nil
}

// NoUv reports whether pip installs them.
func NoUv(s *spec.ClusterSpec) bool {
	c := Of(s)
	return c != nil && c.Uv != nil && !*c.Uv
}

// NoLock reports whether rayctl's lock of Ray does not count.
func NoLock(s *spec.ClusterSpec) bool {
	c := Of(s)
	return c != nil && c.Lock != nil && !*c.Lock
}

// MaxNodes is how many nodes a cluster may begin with; 0: as many as the machine is fit for.
func MaxNodes(s *spec.ClusterSpec) int {
	if c := Of(s); c != nil {
		return c.MaxNodes
	}
	return 0
}

func fillIn(s *spec.ClusterSpec) {
	if Of(s) == nil {
		s.Sections = s.Sections.With(Name, &cluster{Local: &Section{}})
	}
	OnThisMachine(s)
}

// OnThisMachine are the defaults of every launcher whose nodes are processes of this machine.
func OnThisMachine(s *spec.ClusterSpec) {
	s.Ray.Python = spec.ExpandHome(s.Ray.Python)
	s.Job.OutputDir, s.Job.ShareDir = spec.ExpandHome(s.Job.OutputDir), spec.ExpandHome(s.Job.ShareDir)
	spec.HeadOnFirstGroup(s)
}

func validate(v *spec.Validator, s *spec.ClusterSpec) {
	var packages spec.Requirements
	if c := Of(s); c != nil {
		packages = c.Packages
	}
	if s.Launcher == Name {
		ValidateHere(v, s)
	}
	v.FailIf(s.Launcher == Name && !packages.IsZero() && s.Ray.Python != "", "local.packages",
		"install them in the environment of ray.python yourself and give --set 'local.packages=[]', or leave ray.python out",
		"rayctl installs packages only in environments that it makes")
	v.FailIf(MaxNodes(s) < 0, "local.maxNodes", "leave it out for the default", "%d is negative", MaxNodes(s))
	for i, p := range packages.Packages {
		option := strings.HasPrefix(p, "-") && !ofAList.MatchString(p) && clientfiles.ParseLine(p).Origin == ""
		v.FailIf(p == "" || option, fmt.Sprintf("local.packages[%d]", i), "write it like jax==0.7.0; other options stand in a requirements file", "%q is not a package", p)
		v.FailIf(clientfiles.HasPassword(p), fmt.Sprintf("local.packages[%d]", i), clientfiles.PasswordHint, clientfiles.Password)
	}
}

// ofAList matches the options that a list may have. Lines of a file, which Validate sees once they are read, may have all.
var ofAList = regexp.MustCompile(`^(-r|-c|-e|-f|--requirement|--constraint|--editable|--find-links)[\s=]*\S`)

// ValidateHere checks what launchers whose nodes are processes of this machine take of elastic groups.
func ValidateHere(v *spec.Validator, s *spec.ClusterSpec) {
	for _, g := range s.NodeGroups() {
		if g.Elastic() {
			v.Elastic(s, g)
		}
	}
}

// IgnoredHere is what launchers whose nodes are processes of this machine have no use for.
func IgnoredHere(s *spec.ClusterSpec) []string {
	return slices.Concat(ignored.Shm(s), ignored.IdleHead(s), ignored.PartsOfCPUs(s), ignored.Gang(s, "on this machine"), ignored.Scaling(s), ignored.IdleGPU(s), ignored.ReadOnly(s), ignored.Images(s))
}

// unused is about packages, which only this launcher installs.
func unused(s *spec.ClusterSpec, in *spec.Substrate) string {
	c := Of(s)
	if c == nil || c.Packages.IsZero() {
		return ""
	}
	packages := c.Packages.Packages
	if c.Packages.File != "" {
		packages = []string{c.Packages.File}
	}
	return fmt.Sprintf("local.packages (%s) are not installed by the %s launcher: %s must have them, or give them in job.runtimeEnv (pip)",
		strings.Join(packages, ", "), in.Name, in.Python)
}
