package slurmspec

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	ofSlurm  = regexp.MustCompile(`^(SLURM|SLURMD|SBATCH|SQUEUE|SCANCEL|SRUN|SALLOC|SPANK|PMI|PMIX|RAYCTL)_`)
)

func validate(v *spec.Validator, s *spec.ClusterSpec) {
	c := sectionOf(s)
	v.OneOf("slurm.transport", c.Transport, "auto", "local", "ssh", "slurmrestd")
	v.OneOf("slurm.containerRuntime", c.ContainerRuntime, "none", "pyxis", "apptainer", "singularity")
	v.OneOf("slurm.expose", c.Expose, "loopback", "node")
	v.OneOf("slurm.nodeLogs", c.NodeLogs, "onFailure", "always", "never")
	v.FailIf(c.Transport == "ssh" && c.Host == "", "slurm.host", "name the login node", "transport ssh needs a host")
	v.FailIf(c.Transport == "slurmrestd" && c.RESTURL == "", "slurm.restUrl", "set it like http://slurm:6820", "transport slurmrestd needs its URL")
	v.FailIf(strings.HasPrefix(c.Host, "-") || strings.ContainsAny(c.Host, " \t"), "slurm.host", "write it like login1 or me@login1", "%q is not a host", c.Host)
	if c.RESTURL != "" {
		u, err := url.Parse(c.RESTURL)
		v.FailIf(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https", "slurm.restUrl", "write it like http://slurm:6820", "%q is not a URL", c.RESTURL)
	}
	if c.Dir != "" && !strings.HasPrefix(c.Dir, "~/") {
		v.Absolute("slurm.dir", c.Dir)
	}
	tmpDir(v, c.TmpDir)
	network(v, c.Network)
	portsIn(v, c.Ports, s)
	v.FailIf(strings.HasPrefix(c.Comment, "rayctl "), "slurm.comment", "write another text", "rayctl marks its own jobs by a comment that begins with rayctl")
	v.FailIf(strings.HasPrefix(c.Cluster, "-") || strings.ContainsAny(c.Cluster, ", \t"), "slurm.cluster", "write one name as `sacctmgr show cluster` prints it, because a run must be on the cluster that has its directory",
		"%q is not the name of one cluster", c.Cluster)
	v.FailIf(c.Cluster != "" && c.RESTURL != "" && c.Transport != "ssh" && c.Transport != "local", "slurm.cluster", "leave it out, and name that cluster's slurmrestd in slurm.restUrl",
		"a slurmrestd serves only one cluster, so slurm.cluster (%s) has no effect", c.Cluster)
	for i, name := range c.KeepEnv {
		at := fmt.Sprintf("slurm.keepEnv[%d]", i)
		v.FailIf(!variable.MatchString(name), at, "write a name such as SITE_LICENSE_FILE", "%q is not the name of a variable", name)
		v.FailIf(ofSlurm.MatchString(name), at, "leave it out", "Slurm or rayctl sets %s for each job, and a value from another job would change this one", name)
	}
	v.OneOf("slurm.job", c.Job, NewJob, CurrentJob)
	extraArgs(v, "slurm", c.ExtraArgs, slices.ContainsFunc(s.NodeGroups(), func(g spec.NodeGroup) bool { return requestsMemory(s, g) }))
	containerArgs(v, c)
	v.FailIf(strings.HasPrefix(c.Python, "-") || strings.ContainsAny(c.Python, "\n\r\x00"), "slurm.python", "write it like /usr/bin/python3.9 or python3.9", "%q is not an interpreter", c.Python)
	for name, t := range s.GPUTypes {
		if own := spec.Section[GPUType](t.Sections); own != nil {
			v.OneOf("gpuTypes."+name+".vendor", own.Vendor, "nvidia", "amd", "other")
		}
	}
	if s.Launcher != Name {
		return
	}
	container := c.inContainer()
	if c.Job == CurrentJob {
		current(v, s, &c)
	}
	v.FailIf(container && c.ContainerImage == "" && s.Image == "", "slurm.containerImage", "set it, or image", "containerRuntime %s needs an image", c.ContainerRuntime)
	for i, m := range s.Mounts {
		source := Source(m.Source.Sections)
		v.FailIf(!container && source != "" && source != m.MountPath, fmt.Sprintf("mounts[%d].source.slurm", i),
			"make it equal to mountPath, or set slurm.containerRuntime", "without a container %s cannot appear at %s", source, m.MountPath)
		if container {
			bindable(v, fmt.Sprintf("mounts[%d].source.slurm", i), source)
			bindable(v, fmt.Sprintf("mounts[%d].mountPath", i), m.MountPath)
		}
	}
	if container {
		bindable(v, "slurm.dir", c.Dir)
		bindable(v, "slurm.tmpDir", c.TmpDir)
		bindable(v, "job.cwd", s.Job.Cwd)
		if !spec.IsURI(s.Job.OutputDir) {
			bindable(v, "job.outputDir", s.Job.OutputDir)
		}
	}
	for _, g := range s.NodeGroups() {
		p := g.Path()
		elastic(v, s, g)
		v.FailIf(float64(g.CPUs) != math.Trunc(float64(g.CPUs)), p+".cpus", "use a whole number", "Slurm allocates only whole CPUs, and this is %v", float64(g.CPUs))
		if container {
			bindable(v, p+".objectSpillingDirectory", g.ObjectSpillingDirectory)
		}
		if own := GroupOf(g.Sections); own != nil {
			extraArgs(v, p+".slurm", own.ExtraArgs, requestsMemory(s, g))
		}
	}
}

// elastic checks a group whose further nodes are jobs of their own.
func elastic(v *spec.Validator, s *spec.ClusterSpec, g spec.NodeGroup) {
	if !g.Elastic() {
		return
	}
	v.Elastic(s, g)
	p := g.Path()
	v.FailIf(InCurrent(s), p+".maxReplicas", "make it equal to minReplicas, or leave slurm.job out", "the allocation in which this command runs cannot grow")
	exclusive := For(s, g).Exclusive
	v.FailIf(For(s, g).Nodelist != "", p+".maxReplicas", "make it equal to minReplicas, or use slurm.exclude or slurm.constraint instead",
		"each further node of the group is a separate job of one node, and slurm.nodelist would request all its nodes for that job")
	v.FailIf(g.CPUs == 0 && exclusive != nil && *exclusive, p+".cpus", "set the CPUs of one node", "Ray's autoscaler must know what a node of an elastic group has")
}

func validateMount(v *spec.Validator, path string, m *spec.Mount) {
	if source := Source(m.Source.Sections); source != "" {
		v.Absolute(path+".source.slurm", source)
	}
}

// scratch matches the variables of slurm.tmpDir, as keeper/rayctl_keeper/node/files/scratch.py does.
var scratch = regexp.MustCompile(`\$(?:(?:SLURM_JOB_ID|TMPDIR|USER)\b|\{(?:SLURM_JOB_ID|TMPDIR|USER)\})`)

func tmpDir(v *spec.Validator, dir string) {
	if dir == "" {
		return
	}
	rest := scratch.ReplaceAllString(dir, "x")
	v.FailIf(strings.Contains(rest, "$"), "slurm.tmpDir", "use no variables but $SLURM_JOB_ID, $USER and $TMPDIR", "%q has a $ that is not replaced on the nodes", dir)
	if at := scratch.FindString(dir); strings.Trim(at, "${}") != "TMPDIR" || !strings.HasPrefix(dir, at) {
		v.Absolute("slurm.tmpDir", dir)
	}
}

// managedContainer maps arguments of Pyxis and Apptainer that rayctl sets itself to the key.
var managedContainer = map[string]string{"--container-image": "slurm.containerImage", "--container-mounts": "mounts"}

// clearing are arguments of Apptainer without which a container has the environment by which its node finds the others.
var clearing = []string{"--cleanenv", "-e", "--containall", "-C"}

func containerArgs(v *spec.Validator, c Section) {
	for i, a := range c.ContainerArgs {
		at := fmt.Sprintf("slurm.containerArgs[%d]", i)
		name, _, _ := strings.Cut(a, "=")
		v.FailIf(strings.ContainsRune(a, 0), at, "leave it out", "an argument cannot have a NUL byte")
		v.FailIf(i == 0 && !strings.HasPrefix(a, "-"), at, "begin with an option, such as --writable-tmpfs", "%q is not an option", a)
		if key, managed := managedContainer[name]; managed {
			v.Fail(at, "use "+key, "%s is set by rayctl", name)
		}
		v.FailIf(slices.Contains(clearing, name), at, "leave it out", "%s would remove the variables by which the nodes find each other", name)
		pyxis := strings.HasPrefix(a, "--container-") || strings.HasPrefix(a, "--no-container-")
		v.FailIf(c.ContainerRuntime == "pyxis" && !pyxis, at, "write it as srun takes it, like --container-mount-home", "%q is not an option of Pyxis", a)
	}
	v.FailIf(len(c.ContainerArgs) > 0 && !c.inContainer(), "slurm.containerArgs", "set slurm.containerRuntime, or remove them", "there is no container to give them to")
}

// unbindable are characters at which Pyxis (args.c: commas and colons; white space, as enroot's fstab) and Apptainer's --bind split.
const unbindable = ",: \t\n\r\x00"

func bindable(v *spec.Validator, at, dir string) {
	v.FailIf(strings.ContainsAny(dir, unbindable), at, "choose a path without colon, comma and space, or a symbolic link to it", "%q cannot be bound into a container", dir)
}
