package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// option is one of sbatch's or srun's, by its long name.
type option struct {
	name, value string
	line        int
}

// longNames are the long names of sbatch's short options.
var longNames = map[byte]string{
	'A': "account", 'a': "array", 'b': "begin", 'C': "constraint", 'c': "cpus-per-task", 'D': "chdir", 'd': "dependency", 'e': "error", 'F': "nodefile", 'G': "gpus", 'H': "hold",
	'i': "input", 'J': "job-name", 'k': "no-kill", 'L': "licenses", 'M': "clusters", 'm': "distribution", 'N': "nodes", 'n': "ntasks", 'o': "output", 'O': "overcommit",
	'p': "partition", 'q': "qos", 'S': "core-spec", 's': "oversubscribe", 't': "time", 'W': "wait", 'w': "nodelist", 'x': "exclude",
}

// sbatchOptions are those of the #SBATCH lines that sbatch reads: those before the first command. after are the numbers of later ones.
func sbatchOptions(text string) (all []option, after []int) {
	began := false
	for i, line := range strings.Split(text, "\n") {
		rest, ours := strings.CutPrefix(line, "#SBATCH")
		trimmed := strings.TrimSpace(line)
		switch {
		case ours && began:
			after = append(after, i+1)
		case ours:
			all = append(all, optionsOf(splitWords(rest), i+1)...)
		case trimmed != "" && !strings.HasPrefix(trimmed, "#"):
			began = true
		}
	}
	return all, after
}

func optionsOf(words []string, line int) (all []option) {
	for i := 0; i < len(words); i++ {
		o := option{line: line}
		w, whole := words[i], false
		if name, long := strings.CutPrefix(w, "--"); long {
			o.name, o.value, whole = strings.Cut(name, "=")
		} else if len(w) > 1 && w[0] == '-' {
			o.name, o.value = longNames[w[1]], w[2:]
			if o.name == "" {
				o.name = w[:2]
			}
			whole = o.value != ""
		} else {
			all = append(all, option{"", w, line})
			continue
		}
		if !whole && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			o.value = words[i]
		}
		all = append(all, o)
	}
	return all
}

// splitWords splits a line as sbatch does: at blanks, with quotes and backslashes, up to a #.
func splitWords(line string) (words []string) {
	var word strings.Builder
	quote, open, escaped := rune(0), false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped, open = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, open = r, true
		case unicode.IsSpace(r):
			if open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		case r == '#' && !open:
			return words
		default:
			open = true
			word.WriteRune(r)
		}
	}
	if open {
		words = append(words, word.String())
	}
	return words
}

// request is what the #SBATCH lines ask for.
type request struct {
	*draft
	nodes, tasks, perNode, cpusPerTask, gpus, gpusTotal, gpusPerTask int
	gpuType, memory, memoryPerCPU, memoryPerGPU                      string
	exclusive                                                        bool
}

// sectionKeys are options that slurm: has under another, or the same, name.
var sectionKeys = map[string]string{
	"partition": "partition", "account": "account", "qos": "qos", "reservation": "reservation", "constraint": "constraint", "nodelist": "nodelist", "exclude": "exclude",
	"switches": "switches", "dependency": "dependency", "begin": "begin", "comment": "comment", "clusters": "cluster", "cluster": "cluster",
}

// ownOptions are options that rayctl sets itself, with what to do instead.
var ownOptions = map[string]string{
	"output": "`rayctl logs` shows the output, also after the end", "error": "`rayctl logs` shows the output, also after the end", "open-mode": "`rayctl logs` shows the output",
	"array": "a cluster is one job: start `rayctl run` once for each index", "requeue": "job.restarts decides this", "no-requeue": "job.restarts decides this",
	"signal": "job.grace is the driver's time after SIGTERM", "export": "slurm.keepEnv names variables of your login environment", "export-file": "slurm.keepEnv names variables of your login environment",
	"wait": "`rayctl run` waits", "parsable": "", "test-only": "`rayctl doctor` tries the request", "wrap": "", "deadline": "lifetime.queue bounds the wait", "nodefile": "slurm.nodelist names nodes",
	"cpus-per-gpu": "workers[].cpus", "gpus-per-socket": "workers[].gpus", "ntasks-per-gpu": "each worker is one task", "ntasks-per-socket": "each worker is one task", "ntasks-per-core": "each worker is one task",
	"tres-per-task": "workers[].cpus and workers[].gpus", "overcommit": "", "input": "", "hold": "", "quiet": "", "verbose": "",
}

// take translates one option.
func (r *request) take(o option) {
	numbers := map[string]*int{"ntasks": &r.tasks, "ntasks-per-node": &r.perNode, "tasks-per-node": &r.perNode, "cpus-per-task": &r.cpusPerTask}
	shown := oneLine(strings.TrimSuffix("--"+o.name+"="+o.value, "="))
	if secretText.MatchString(o.value) { // --export=TOKEN=...
		shown = "--" + o.name
	}
	switch {
	case o.name == "hetjob" || o.name == "packjob" || o.value == "hetjob" || o.value == "packjob":
		r.leave("line %d: the further components of the heterogeneous job: add a group to workers for each", o.line)
	case o.name == "":
		r.leave("line %d: %s: not an option", o.line, o.value)
	case numbers[o.name] != nil:
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 1 {
			r.leave("line %d: %s: not a number", o.line, shown)
			return
		}
		*numbers[o.name] = n
	case o.name == "nodes":
		r.takeNodes(o, shown)
	case o.name == "job-name":
		r.takeName(o)
	case o.name == "time":
		r.takeTime(o, shown)
	case o.name == "mem" && o.value == "0":
		r.ask("line %d: --mem=0 is all memory of a node: without workers[].memory a worker gets what Slurm gives; slurm.exclusive: true takes whole nodes", o.line)
	case o.name == "mem" || o.name == "mem-per-cpu" || o.name == "mem-per-gpu":
		size, ok := slurmMemory(o.value)
		if !ok {
			r.leave("line %d: %s: not a size", o.line, shown)
			return
		}
		*map[string]*string{"mem": &r.memory, "mem-per-cpu": &r.memoryPerCPU, "mem-per-gpu": &r.memoryPerGPU}[o.name] = size
	case o.name == "exclusive" && o.value == "":
		r.exclusive = true
	case o.name == "gres" || strings.HasPrefix(o.name, "gpus") && o.name != "gpus-per-socket":
		r.takeGPUs(o, shown)
	case o.name == "chdir":
		r.takeDir(o)
	case sectionKeys[o.name] != "" && o.value != "":
		r.top.below("slurm").set(sectionKeys[o.name], o.value, "")
	default:
		if hint, ours := ownOptions[o.name]; ours {
			r.leave("%s", strings.TrimSuffix(fmt.Sprintf("line %d: %s: %s", o.line, shown, hint), ": "))
			return
		}
		r.extra(o)
	}
}

func (r *request) takeNodes(o option, shown string) {
	least, most, ranged := strings.Cut(o.value, "-")
	n, err := strconv.Atoi(least)
	if err != nil || n < 1 {
		r.leave("line %d: %s: not a number of nodes: set workers[].replicas", o.line, shown)
		return
	}
	r.nodes = n
	if ranged && most != least {
		r.ask("line %d: %s: workers[].replicas is the smaller number; minReplicas and maxReplicas make a group elastic", o.line, shown)
	}
}

func (r *request) takeName(o option) {
	name := spec.NameFrom(o.value)
	r.top.set("name", name, "")
	if name != o.value {
		r.ask("line %d: the name %s became %s: names have small letters, digits and -", o.line, o.value, name)
	}
}

func (r *request) takeTime(o option, shown string) {
	limit, ok := slurmTime(o.value)
	if !ok {
		r.leave("line %d: %s: not a time limit: set lifetime.max", o.line, shown)
		return
	}
	comment := "rayctl asks Slurm for some minutes more"
	if limit == "unlimited" {
		comment = ""
	}
	r.top.below("lifetime").set("max", limit, comment)
}

func (r *request) takeDir(o option) {
	if !strings.HasPrefix(o.value, "/") || strings.Contains(o.value, "%") {
		r.leave("line %d: --chdir=%s: job.cwd is an absolute path", o.line, o.value)
		return
	}
	r.top.below("job").set("cwd", o.value, "")
}

// extra hands an option without a key to sbatch.
func (r *request) extra(o option) {
	text := "--" + o.name
	if strings.HasPrefix(o.name, "-") {
		text = o.name + o.value
	} else if o.value != "" {
		text += "=" + o.value
	}
	r.top.below("slurm").add("extraArgs", text)
}

// gpuList matches a request for GPUs: 8, h100:8, gpu:8, gpu:h100:8, and what of the sockets Slurm shows behind it.
var gpuList = regexp.MustCompile(`^(?:(?:gres[:/])?gpu:?)?(?:([A-Za-z][\w.-]*):?)?(\d*)(?:\(S:[^)]*\))?$`)

func (r *request) takeGPUs(o option, shown string) {
	var others, found []string
	for item := range strings.SplitSeq(o.value, ",") {
		bare := strings.TrimPrefix(strings.TrimPrefix(item, "gres:"), "gres/")
		name, _, _ := strings.Cut(bare, ":")
		if o.name == "gres" && name != "gpu" {
			others = append(others, item)
			continue
		}
		found = append(found, item)
	}
	if len(others) > 0 && strings.Join(others, "") != "none" {
		r.extra(option{"gres", strings.Join(others, ","), o.line})
	}
	if len(found) == 0 {
		return
	}
	m := gpuList.FindStringSubmatch(found[0])
	if m == nil || len(found) > 1 {
		r.leave("line %d: %s: set workers[].gpus and workers[].gpuType", o.line, shown)
		return
	}
	n := 1
	if m[2] != "" {
		n, _ = strconv.Atoi(m[2]) // digits
	}
	r.gpuType = m[1]
	switch o.name {
	case "gpus":
		r.gpusTotal = n
	case "gpus-per-task":
		r.gpusPerTask = n
	default:
		r.gpus = n
	}
}

// group is the worker group that the request describes.
func (r *request) group() keys {
	g := newKeys()
	g.set("name", "worker", "")
	switch {
	case r.nodes == 0 && r.tasks > 0 && r.perNode > 0:
		r.nodes = (r.tasks + r.perNode - 1) / r.perNode
	case r.nodes == 0 && r.tasks > 0:
		r.nodes = r.tasks
		r.ask("the script asks for %d tasks and no number of nodes: each task became a worker", r.tasks)
	case r.nodes == 0:
		r.nodes = 1
	case r.perNode == 0 && r.tasks > r.nodes:
		r.perNode = (r.tasks + r.nodes - 1) / r.nodes
	}
	each := max(1, r.perNode)
	g.set("replicas", r.nodes, "the head runs on the first worker")
	cpus := r.cpusPerTask * each
	if cpus > 0 {
		g.set("cpus", cpus, "")
	}
	if each > 1 {
		r.ask("%d tasks of a node became one worker, with the CPUs of all of them: a worker is one Ray node", each)
	}
	r.setGPUs(g, each)
	r.setMemory(g, cpus)
	if r.exclusive {
		r.top.below("slurm").set("exclusive", true, "")
	}
	return g
}

func (r *request) setGPUs(g keys, each int) {
	switch {
	case r.gpus > 0:
	case r.gpusPerTask > 0:
		r.gpus = r.gpusPerTask * each
	case r.gpusTotal > 0 && r.gpusTotal%r.nodes == 0:
		r.gpus = r.gpusTotal / r.nodes
	case r.gpusTotal > 0:
		r.leave("--gpus=%d for %d nodes: set workers[].gpus", r.gpusTotal, r.nodes)
	}
	if r.gpus > 0 {
		g.set("gpus", r.gpus, "")
		if r.gpuType != "" {
			g.set("gpuType", r.gpuType, "")
		}
	}
}

func (r *request) setMemory(g keys, cpus int) {
	per, times, name := r.memory, 1, "--mem"
	switch {
	case per != "":
	case r.memoryPerCPU != "":
		per, times, name = r.memoryPerCPU, cpus, "--mem-per-cpu"
	case r.memoryPerGPU != "":
		per, times, name = r.memoryPerGPU, r.gpus, "--mem-per-gpu"
	default:
		return
	}
	if times == 0 {
		r.leave("%s=%s: the script does not say of how many: set workers[].memory", name, per)
		return
	}
	n, unit := splitSize(per)
	g.set("memory", strconv.Itoa(n*times)+unit, "")
}

var sizeText = regexp.MustCompile(`^(\d{1,12})([KMGTkmgt]?)[Bb]?$`)

// slurmMemory is Slurm's size, of MiB without a unit, as a Kubernetes quantity.
func slurmMemory(text string) (string, bool) {
	m := sizeText.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	unit := strings.ToUpper(m[2])
	if unit == "" {
		unit = "M"
	}
	return m[1] + unit + "i", true
}

func splitSize(text string) (int, string) {
	n, _ := strconv.Atoi(text[:len(text)-2]) // of slurmMemory
	return n, text[len(text)-2:]
}

// slurmTime is Slurm's time limit, of minutes if it is a number alone, as the cluster file has it.
func slurmTime(text string) (string, bool) {
	if slices.Contains([]string{"unlimited", "infinite", "-1", "0"}, strings.ToLower(text)) {
		return "unlimited", true
	}
	if _, err := strconv.Atoi(text); err == nil {
		text += "m"
	}
	d, err := units.ParseDuration(text)
	if err != nil || d <= 0 {
		return "", false
	}
	return units.FormatDuration(d), true
}
