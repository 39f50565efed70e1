package spec

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// managedSbatch maps arguments of sbatch that rayctl sets itself to the reason.
var managedSbatch = map[string]string{
	"--comment": "rayctl finds its jobs by it", "--wrap": "rayctl brings its own script", "--array": "a cluster is one job", "-a": "a cluster is one job",
	"--parsable": "rayctl reads sbatch's answer", "--wait": "rayctl watches the job", "-W": "rayctl watches the job",
	"--job-name": "use name", "-J": "use name", "--time": "use lifetime.max", "-t": "use lifetime.max", "--deadline": "use lifetime.queue",
	"--ntasks": "use workers[].replicas", "-n": "use workers[].replicas", "--nodes": "use workers[].replicas", "-N": "use workers[].replicas",
	"--output": "the run directory has the output", "-o": "the run directory has the output", "--signal": "use job.grace",
	"--requeue": "use job.restarts", "--no-requeue": "use job.restarts",
}

func (v *validator) slurm(s *ClusterSpec) {
	c := value(s.Slurm, Slurm{})
	v.oneOf("slurm.transport", c.Transport, "auto", "local", "ssh", "slurmrestd")
	v.oneOf("slurm.containerRuntime", c.ContainerRuntime, "none", "pyxis", "apptainer")
	v.oneOf("slurm.expose", c.Expose, "loopback", "node")
	v.oneOf("slurm.nodeLogs", c.NodeLogs, "onFailure", "always", "never")
	v.failIf(c.Transport == "ssh" && c.Host == "", "slurm.host", "name the login node", "transport ssh needs a host")
	v.failIf(c.Transport == "slurmrestd" && c.RESTURL == "", "slurm.restUrl", "set it like http://slurm:6820", "transport slurmrestd needs its URL")
	v.failIf(strings.HasPrefix(c.Host, "-") || strings.ContainsAny(c.Host, " \t"), "slurm.host", "write it like login1 or me@login1", "%q is not a host", c.Host)
	if c.RESTURL != "" {
		u, err := url.Parse(c.RESTURL)
		v.failIf(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https", "slurm.restUrl", "write it like http://slurm:6820", "%q is not a URL", c.RESTURL)
	}
	if c.Dir != "" && !strings.HasPrefix(c.Dir, "~/") {
		v.absolute("slurm.dir", c.Dir)
	}
	if c.TmpDir != "" {
		v.absolute("slurm.tmpDir", c.TmpDir)
	}
	v.extraArgs("slurm", c.ExtraArgs)
	container := c.ContainerRuntime != "" && c.ContainerRuntime != "none"
	if s.Launcher != LauncherSlurm {
		return
	}
	v.failIf(container && c.ContainerImage == "" && s.Image == "", "slurm.containerImage", "set it, or image", "containerRuntime %s needs an image", c.ContainerRuntime)
	for i, m := range s.Mounts {
		v.failIf(!container && m.Source.Slurm != "" && m.Source.Slurm != m.MountPath, fmt.Sprintf("mounts[%d].source.slurm", i),
			"make it equal to mountPath, or set slurm.containerRuntime", "without a container %s cannot appear at %s", m.Source.Slurm, m.MountPath)
	}
	for _, g := range s.NodeGroups() {
		p := groupPath(g)
		v.failIf(float64(g.CPUs) != math.Trunc(float64(g.CPUs)), p+".cpus", "use a whole number", "Slurm has no parts of CPUs, and this is %v", float64(g.CPUs))
		if g.Slurm != nil {
			v.extraArgs(p+".slurm", g.Slurm.ExtraArgs)
		}
	}
}

func groupPath(g NodeGroup) string {
	if g.Name == HeadGroupName {
		return HeadGroupName
	}
	return join("workers", g.Name)
}

func (v *validator) extraArgs(p string, args []string) {
	for i, a := range args {
		ap := fmt.Sprintf("%s.extraArgs[%d]", p, i)
		v.failIf(!strings.HasPrefix(a, "-"), ap, "write option and value as one argument, like --segment=2", "%q is not an option", a)
		name, _, _ := strings.Cut(a, "=")
		if !strings.HasPrefix(name, "--") && len(name) > 2 {
			name = name[:2]
		}
		if why, managed := managedSbatch[name]; managed {
			v.fail(ap, why, "%s is set by rayctl", name)
		}
	}
}

func (v *validator) kubeRay(s *ClusterSpec) {
	c := value(s.KubeRay, KubeRay{})
	v.oneOf("kuberay.scheduler", c.Scheduler, "auto", "volcano", "none")
	v.oneOf("kuberay.keeper", c.Keeper, "auto", "none")
	v.oneOf("kuberay.imagePullPolicy", c.ImagePullPolicy, "Always", "IfNotPresent", "Never")
	v.failIf(c.Namespace != "" && len(validation.IsDNS1123Label(c.Namespace)) > 0, "kuberay.namespace", "use lower-case letters, digits and -", "%q is not a namespace", c.Namespace)
	if rc, ok := c.Patch["spec"].(map[string]any); ok {
		_, touches := rc["workerGroupSpecs"]
		v.failIf(touches, "kuberay.patch.spec.workerGroupSpecs", "use workers[].patch", "a merge patch would replace the whole list of groups")
	}
	for _, k := range slices.Sorted(maps.Keys(c.ConfigMaps)) {
		v.failIf(len(validation.IsDNS1123Subdomain(k)) > 0, printable(join("kuberay.configMaps", k)), "use lower-case letters, digits, - and .", "%q cannot be a ConfigMap's name", k)
	}
	if s.Launcher != LauncherKubeRay {
		return
	}
	if c.RayCluster != nil {
		v.besideRayCluster(s)
		return
	}
	gpus := slices.ContainsFunc(s.NodeGroups(), func(g NodeGroup) bool { return g.GPUs > 0 })
	v.failIf(c.Scheduler == "none" && gpus && s.IsGang() && s.GangNodes() > 1, "kuberay.scheduler",
		"use volcano, or set gang: false if a part of the nodes is of use", "%d GPU nodes must start together, and without a gang scheduler they may start in part", s.GangNodes())
}

// besideRayCluster rejects keys that a given RayCluster sets itself.
func (v *validator) besideRayCluster(s *ClusterSpec) {
	k := s.KubeRay
	for _, x := range []struct {
		path  string
		given bool
	}{
		{"head", s.Head.On != "" || !s.Head.isZero()}, {"workers", len(s.Workers) > 0}, {"image", s.Image != ""}, {"env", len(s.Env) > 0}, {"setup", s.Setup != ""},
		{"secrets", len(s.Secrets) > 0}, {"mounts", len(s.Mounts) > 0}, {"kuberay.nodeSelector", len(k.NodeSelector) > 0},
		{"kuberay.tolerations", len(k.Tolerations) > 0}, {"kuberay.serviceAccountName", k.ServiceAccountName != ""},
	} {
		v.failIf(x.given, x.path, "write it into the RayCluster, or use kuberay.patch", "the RayCluster is taken as it is, so this has no effect")
	}
}

func (v *validator) local(s *ClusterSpec) {
	c := value(s.Local, Local{})
	v.failIf(s.Launcher == LauncherLocal && len(c.Packages) > 0 && s.Ray.Python != "", "local.packages",
		"install them in the environment of ray.python yourself and give --set 'local.packages=[]', or leave ray.python out",
		"rayctl installs packages only in environments that it makes")
	for i, p := range c.Packages {
		v.failIf(p == "" || strings.HasPrefix(p, "-"), fmt.Sprintf("local.packages[%d]", i), "write it like jax==0.7.0", "%q is not a package", p)
	}
}
