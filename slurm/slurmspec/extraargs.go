package slurmspec

import (
	"fmt"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// managed are arguments of sbatch that rayctl sets itself, or for which there is a key, with what to do instead. Those of memory are in memoryArgs.
var managed = func() map[string]string {
	all := map[string]string{}
	for _, m := range []struct{ hint, names string }{
		{"use slurm.comment", "--comment"}, {"use slurm.cluster", "--clusters -M --cluster-constraint"}, {"use slurm.partition", "--partition -p"},
		{"use slurm.account", "--account -A"}, {"use slurm.qos", "--qos -q"}, {"use slurm.reservation", "--reservation"},
		{"use slurm.constraint", "--constraint -C"}, {"use slurm.nodelist", "--nodelist -w --nodefile -F"}, {"use slurm.exclude", "--exclude -x"},
		{"use slurm.switches", "--switches"}, {"use slurm.dependency", "--dependency -d"}, {"use slurm.begin", "--begin -b"},
		{"use name", "--job-name -J"}, {"use lifetime.max", "--time -t"}, {"use lifetime.queue", "--deadline"}, {"use job.grace", "--signal"},
		{"use job.restarts", "--requeue --no-requeue"}, {"use job.cwd", "--chdir -D"}, {"use slurm.keepEnv, env or job.env", "--export --export-file"},
		{"use workers[].replicas", "--ntasks -n --nodes -N"}, {"use workers[].cpus and head.cpus", "--cpus-per-task -c --cpus-per-gpu"},
		{"use workers[].gpus and gpuType", "--gpus -G --gpus-per-node --gpus-per-task --gpus-per-socket"},
		{"use workers[].cpus and workers[].gpus", "--tres-per-task"},
		{"each worker is one task; slurm.exclusive: true gives it a node of its own", "--ntasks-per-node --ntasks-per-gpu"},
		{"a cluster is one job", "--array -a"}, {"rayctl brings its own script", "--wrap"}, {"rayctl reads sbatch's answer", "--parsable"},
		{"rayctl watches the job", "--wait -W"}, {"`rayctl doctor` tries the request", "--test-only"},
		{"the run directory has the output", "--output -o --error -e --open-mode"},
	} {
		for name := range strings.FieldsSeq(m.names) {
			all[name] = m.hint
		}
	}
	return all
}()

// memoryArgs are the arguments of sbatch for memory, of which it takes one.
const memoryArgs = " --mem --mem-per-cpu --mem-per-gpu "

// requestsMemory reports whether rayctl asks Slurm for a group's memory.
func requestsMemory(s *spec.ClusterSpec, g spec.NodeGroup) bool {
	own := For(s, g)
	return own.RequestsMemory() && (!g.Memory.IsZero() || own.Exclusive != nil && *own.Exclusive)
}

// RequestsMemory is requestMemory with its default.
func (g Group) RequestsMemory() bool { return g.RequestMemory == nil || *g.RequestMemory }

// extraArgs refuses arguments of sbatch that would override what rayctl asks for. memory: that has memory.
func extraArgs(v *spec.Validator, p string, args []string, memory bool) {
	for i, a := range args {
		ap := fmt.Sprintf("%s.extraArgs[%d]", p, i)
		v.FailIf(!strings.HasPrefix(a, "-"), ap, "write option and value as one argument, like --segment=2", "%q is not an option", a)
		name, value, _ := strings.Cut(a, "=")
		if !strings.HasPrefix(name, "--") && len(name) > 2 {
			name = name[:2]
		}
		switch hint := managed[name]; {
		case hint != "":
			v.Fail(ap, hint, "%s is set by rayctl", name)
		case a == "--exclusive":
			v.Fail(ap, "use slurm.exclusive: true", "%s is set by rayctl", name)
		case name == "--gres" && hasGPUs(value):
			v.Fail(ap, managed["--gpus"], "%s is set by rayctl", a)
		case memory && strings.Contains(memoryArgs, " "+name+" "):
			v.Fail(ap, "use workers[].memory, or set slurm.requestMemory: false, which leaves this to extraArgs", "%s is set by rayctl", name)
		}
	}
}

// hasGPUs reports whether a list of generic resources (NAME[:TYPE][:COUNT], since 21.08 with gres: or gres/ before it) has GPUs.
func hasGPUs(list string) bool {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimPrefix(strings.TrimPrefix(item, "gres/"), "gres:")
		if name, _, _ := strings.Cut(item, ":"); name == "gpu" {
			return true
		}
	}
	return false
}
