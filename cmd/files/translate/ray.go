package translate

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
)

// withValue are the options of srun and of Apptainer whose value may be the next word.
var withValue = map[string][]string{
	"srun": strings.Fields(`-A -c -C -d -D -e -G -i -J -L -m -n -N -o -p -q -r -t -T -w -x --account --chdir --constraint --container-image --container-mounts --container-name
		--container-workdir --cpus-per-task --distribution --error --exclude --export --gpus --gpus-per-node --gpus-per-task --gres --het-group --input --job-name --jobid --mem
		--mem-per-cpu --mem-per-gpu --mpi --nodelist --nodes --ntasks --ntasks-per-node --output --partition --qos --relative --time --unbuffered-output --wckey`),
	"apptainer": strings.Fields("-B --bind --env --env-file -H --home -o --overlay --pwd -W --workdir -S --scratch --security --network --mount --app"),
}

// unwrapped are the words of the command that srun, or a container's runtime, runs. It takes over what they say about the container.
func (s *script) unwrapped(words []*syntax.Word) []*syntax.Word {
	for len(words) > 0 {
		name := s.nameOfCommand(words)
		switch {
		case name == "srun":
			s.slurm = true
			words = s.skipOptions(words[1:], "srun")
		case (name == "apptainer" || name == "singularity") && len(words) > 2 && slices.Contains([]string{"exec", "run"}, words[1].Lit()):
			words = s.skipOptions(words[2:], "apptainer")
			if len(words) > 0 {
				s.container(name, words[0])
				words = words[1:]
			}
		case name == "nohup" || name == "exec":
			words = words[1:]
		default:
			return words
		}
	}
	return words
}

// skipOptions are the words behind a program's options.
func (s *script) skipOptions(words []*syntax.Word, program string) []*syntax.Word {
	for i := 0; i < len(words); i++ {
		text, ok := s.values.known(words[i])
		if !ok { // "--container-image=$IMAGE" begins with text
			text = printed(words[i])
			if !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "$") && !strings.HasPrefix(text, `"-`) {
				return words[i:]
			}
			s.takeStep(program, strings.Trim(text, `"`), words[i].Pos(), false)
			continue
		}
		if len(words[i].Parts) == 1 && strings.Contains(text, " ") { // options in an unquoted variable
			if _, expands := words[i].Parts[0].(*syntax.ParamExp); expands {
				for _, o := range optionsOf(strings.Fields(text), 0) {
					s.takeStep(program, strings.TrimSuffix("--"+o.name+"="+o.value, "="), words[i].Pos(), true)
				}
				continue
			}
		}
		if !strings.HasPrefix(text, "-") {
			return words[i:]
		}
		known := true
		if slices.Contains(withValue[program], text) && i+1 < len(words) {
			i++
			var next string
			if next, known = s.values.known(words[i]); !known {
				next = printed(words[i])
			}
			text += "=" + next
		}
		s.takeStep(program, text, words[i].Pos(), known)
	}
	return nil
}

// takeStep takes what an option of srun, or of Apptainer, says about the container. Everything else about a step rayctl sets itself.
func (s *script) takeStep(program, text string, at syntax.Pos, known bool) {
	name, value, _ := strings.Cut(text, "=")
	image, mounts, dir := name == "--container-image", name == "--container-mounts", name == "--container-workdir"
	if program == "apptainer" {
		image, mounts, dir = false, name == "--bind" || name == "-B", name == "--pwd"
	}
	ignored := []string{"--container-name", "--nv", "--rocm"} // rayctl sets them
	switch {
	case program == "srun" && !strings.HasPrefix(name, "--container-") && !strings.HasPrefix(name, "--no-container-"), slices.Contains(ignored, name):
	case !known && (image || mounts || dir):
		s.leave("line %d: %s %s: only a run of the script knows the value: set %s", at.Line(), program, text, map[bool]string{true: "image", false: "mounts"}[image])
		if image {
			s.top.below("slurm").set("containerRuntime", "pyxis", "")
		}
	case image:
		s.top.set("image", value, "")
		s.top.below("slurm").set("containerRuntime", "pyxis", "")
	case mounts:
		s.mounts(value, at)
	case dir:
		s.top.below("job").set("cwd", value, "")
	case known:
		s.top.below("slurm").add("containerArgs", text)
	default:
		s.leave("line %d: %s %s: only a run of the script knows the value", at.Line(), program, text)
	}
}

func (s *script) container(runtime string, image *syntax.Word) {
	s.top.below("slurm").set("containerRuntime", runtime, "")
	if text, ok := s.values.known(image); ok {
		s.top.set("image", text, "")
		return
	}
	s.leave("line %d: the image %s: only a run of the script knows it: set image", image.Pos().Line(), printed(image))
}

// mounts takes SOURCE[:TARGET[:FLAGS]] with commas.
func (s *script) mounts(list string, at syntax.Pos) {
	for item := range strings.SplitSeq(list, ",") {
		source, rest, both := strings.Cut(item, ":")
		target, flags, _ := strings.Cut(rest, ":")
		if !both {
			target = source
		}
		if !strings.HasPrefix(source, "/") || !strings.HasPrefix(target, "/") {
			s.leave("line %d: the mount %s: write it into mounts with absolute paths", at.Line(), item)
			continue
		}
		if source == target && flags != "ro" {
			s.addMount(target, source)
			continue
		}
		m := newKeys()
		m.set("mountPath", target, "")
		if flags == "ro" {
			m.set("readOnly", true, "")
		} else if flags != "" {
			s.leave("line %d: %s of the mount %s: mounts have only readOnly", at.Line(), flags, item)
		}
		m.below("source").set("slurm", source, "")
		s.addMount(target, m)
	}
}

// addMount adds a mount once.
func (s *script) addMount(target string, mount any) {
	if list := s.top.get("mounts"); list != nil {
		for _, there := range list.Content {
			if there.Value == target || len(there.Content) > 1 && there.Content[1].Value == target {
				return
			}
		}
	}
	s.top.add("mounts", mount)
}

// rayOptions are the options of the script's `ray start`.
type rayOptions struct {
	started bool
	head    map[string]string
	workers map[string]string
	left    []string
}

// ownRayOptions are options of `ray start` and `ray symmetric-run` that rayctl sets itself, or that say what the file says elsewhere.
var ownRayOptions = strings.Fields(`head address port block node-ip-address redis-password redis-username dashboard-host dashboard-port dashboard-agent-listen-port dashboard-agent-grpc-port
	include-dashboard disable-usage-stats node-manager-port object-manager-port ray-client-server-port gcs-server-port min-worker-port max-worker-port worker-port-list metrics-export-port
	runtime-env-agent-port dashboard-grpc-port node-name verbose v log-style log-color min-nodes max-nodes`)

// takenRayOptions are those with a key.
var takenRayOptions = strings.Fields("num-cpus num-gpus resources object-store-memory temp-dir memory")

// rayStart reads the options of `ray start`; of other commands it reads nothing, except for a shell's -c.
func (s *script) rayStart(words []*syntax.Word) {
	name := s.nameOfCommand(words)
	if config.IsShell(name) {
		if given := shellText(words); given != nil {
			text, ok := s.values.known(given)
			if !ok {
				text = strings.Trim(printed(given), `"`)
			}
			for _, st := range splitCommand(text) {
				s.scan(st)
			}
		}
		return
	}
	if s.rayVerb(words) != "start" {
		return
	}
	s.ray.started = true
	options := s.rayFlags(words[2:])
	into := &s.ray.workers
	if _, head := options["head"]; head {
		into = &s.ray.head
	}
	*into = options
}

// rayFlags are the options of `ray start` by name; without the value of those that only a run of the script knows.
func (s *script) rayFlags(words []*syntax.Word) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(words); i++ {
		text, ok := s.values.known(words[i])
		if !ok {
			text = strings.ReplaceAll(printed(words[i]), `"`, "")
		}
		name, isFlag := strings.CutPrefix(text, "--")
		name, value, whole := strings.Cut(name, "=")
		if !isFlag {
			continue
		}
		known := ok
		if !whole && i+1 < len(words) && !strings.HasPrefix(printed(words[i+1]), "-") {
			i++
			value, known = s.values.known(words[i])
		}
		if !slices.Contains(ownRayOptions, name) && (!slices.Contains(takenRayOptions, name) || !known && name != "num-cpus" && name != "num-gpus") {
			s.ray.left = appendNew(s.ray.left, fmt.Sprintf("line %d: ray start --%s", words[i].Pos().Line(), name))
			continue
		}
		if !known {
			value = ""
		}
		out[name] = value
	}
	return out
}

// gpus reports whether Ray is told of GPUs.
func (r *rayOptions) gpus() bool {
	return isNumber(r.head["num-gpus"]) || isNumber(r.workers["num-gpus"])
}

func (r *rayOptions) leave(d *draft) {
	for _, text := range r.left {
		d.leave("%s: rayctl's file has no key for it, or only a run of the script knows the value; `rayctl help cluster-file` shows what there is", text)
	}
}

// withRay adds to a group what `ray start` says.
func (s *script) withRay(g keys) keys {
	s.ray.leave(s.draft)
	head, workers := s.ray.head, s.ray.workers
	if workers == nil {
		workers = head
	}
	if head == nil {
		head = workers
	}
	s.setAmount(g, "cpus", workers["num-cpus"])
	s.setAmount(g, "gpus", workers["num-gpus"])
	if n := head["num-cpus"]; n != "" && n != workers["num-cpus"] {
		s.ask("ray start --head has --num-cpus=%s: here the head is the first worker, with all its CPUs; `head: {on: head}` gives it a node of its own", n)
	}
	for _, o := range []string{"resources", "object-store-memory", "memory"} {
		if head[o] != workers[o] {
			s.leave("--%s of ray start, which head and workers have differently: split the group in two", o)
			continue
		}
		if value := workers[o]; value != "" {
			s.setRay(g, o, value)
		}
	}
	if dir := head["temp-dir"]; strings.HasPrefix(dir, "/") {
		s.top.below("slurm").set("tmpDir", dir, "each node makes its temporary directory in it")
	}
	return g
}

func (s *script) setRay(g keys, name, value string) {
	var amounts map[string]float64
	switch {
	case name == "resources" && json.Unmarshal([]byte(value), &amounts) == nil:
		g.set("resources", amounts, "")
	case name == "object-store-memory" && isNumber(value):
		g.set("objectStoreMemory", value, "")
	default:
		s.leave("ray start --%s=%s: set it at the workers", name, value)
	}
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 63)
	return err == nil
}

// setAmount sets what Slurm was not asked for, and asks where Ray was told of another amount.
func (s *script) setAmount(g keys, key, amount string) {
	if !isNumber(amount) {
		return
	}
	n, _ := strconv.Atoi(amount) // a number
	switch there := g.get(key); {
	case there == nil && n > 0:
		g.set(key, n, "")
		s.ask("%s is that of ray start: the #SBATCH lines do not ask Slurm for it, as rayctl does", key)
	case there != nil && there.Value != amount:
		s.ask("ray start has %s %s, and the #SBATCH lines %s: rayctl tells Ray what Slurm gives", amount, key, there.Value)
	}
}

// symmetric is `ray symmetric-run ... -- COMMAND`, which starts Ray on all nodes and runs the command on the head.
func (s *script) symmetric(st *syntax.Stmt, c *syntax.CallExpr, words []*syntax.Word) {
	s.ray.started = true
	command := slices.IndexFunc(words, func(w *syntax.Word) bool { return w.Lit() == "--" })
	if command < 0 {
		s.leaveStmt(st, "rayctl finds no -- with the command behind it: set job.entrypoint")
		return
	}
	s.ray.head = s.rayFlags(words[2:command])
	c.Args = words[command+1:]
	if len(c.Args) > 0 {
		s.drivers = append(s.drivers, driver{lineOf(st), st, true})
	}
}

// jobFlags are the options of `ray job submit`, with the key or what to do instead.
var jobFlags = map[string]string{
	"entrypoint-num-cpus": "entrypointCpus", "entrypoint-num-gpus": "entrypointGpus", "entrypoint-memory": "entrypointMemory", "working-dir": "workingDir",
}

// submit is `ray job submit OPTIONS -- COMMAND`.
func (s *script) submit(st *syntax.Stmt, c *syntax.CallExpr, words []*syntax.Word) {
	line := lineOf(st)
	if !s.slurm && !s.ray.started {
		s.kind = "a `ray job submit` command line"
	}
	i := 3
	for ; i < len(words); i++ {
		text, ok := s.values.known(words[i])
		if !ok {
			text = strings.ReplaceAll(printed(words[i]), `"`, "")
		}
		if text == "--" {
			i++
			break
		}
		if !strings.HasPrefix(text, "-") {
			break // the command without --
		}
		name, value, whole := strings.Cut(strings.TrimLeft(text, "-"), "=")
		if !whole && !slices.Contains([]string{"no-wait", "v", "verbose"}, name) && i+1 < len(words) {
			i++
			value, ok = s.values.known(words[i])
		}
		s.jobFlag(name, value, ok, line)
	}
	c.Args = words[min(i, len(words)):]
	if len(c.Args) > 0 {
		s.drivers = append(s.drivers, driver{line, st, true})
	}
}

func (s *script) jobFlag(name, value string, known bool, line int) {
	job := s.top.below("job")
	switch {
	case name == "address" && known && !ownAddress.MatchString(value): // in a script that starts Ray it is a variable, or this machine
		s.leave("line %d: --address=%s: a run has a cluster of its own; `rayctl submit --address` submits a job to that one", line, value)
	case name == "address" || name == "verbose" || name == "v" || strings.HasPrefix(name, "log-"):
	case name == "headers" || name == "verify":
		s.leave("line %d: --%s: it is for the dashboard of a cluster that runs already, which `rayctl submit --address` reaches", line, name)
	case !known:
		s.leave("line %d: --%s: only a run of the script knows the value", line, name)
	case name == "no-wait":
		s.leave("line %d: --no-wait: `rayctl run --detach` does not wait", line)
	case name == "submission-id" || name == "job-id":
		s.leave("line %d: --%s=%s: rayctl names the job; `rayctl submit --submission-id` sets it", line, name, value)
	case name == "runtime-env":
		s.leave("line %d: --runtime-env=%s: copy what is in the file to job.runtimeEnv, or give `rayctl run --runtime-env`", line, value)
	case name == "runtime-env-json":
		s.runtimeEnv(value, line)
	case name == "entrypoint-resources" || name == "entrypoint-label-selector" || name == "metadata-json":
		key := map[string]string{"entrypoint-resources": "entrypointResources", "entrypoint-label-selector": "entrypointLabelSelector", "metadata-json": "metadata"}[name]
		var object map[string]any
		if json.Unmarshal([]byte(value), &object) != nil {
			s.leave("line %d: --%s: not a JSON object: set job.%s", line, name, key)
			return
		}
		job.set(key, object, "")
	case jobFlags[name] != "":
		var number json.Number
		if json.Unmarshal([]byte(value), &number) == nil && name != "working-dir" {
			job.put(jobFlags[name], plainScalar(value), "")
			return
		}
		job.set(jobFlags[name], value, "")
		if s.elsewhere && !strings.HasPrefix(value, "/") && !spec.IsURI(value) {
			s.ask("line %d: job.workingDir is relative to the cluster file, which is in another directory", line)
		}
	default:
		s.leave("line %d: --%s: rayctl does not know this option", line, name)
	}
}

// ownAddress is an address of the machine on which the command runs.
var ownAddress = regexp.MustCompile(`^(\w+://)?(localhost|127\.[\d.]+|\[::1\])?(:\d+)?/?$`)

// runtimeEnv is Ray's runtime_env as JSON.
func (s *script) runtimeEnv(text string, line int) {
	value, err := spec.PlainYAML(text)
	env, ok := value.(map[string]any)
	if err != nil || !ok {
		s.leave("line %d: --runtime-env-json: not a JSON object: set job.runtimeEnv", line)
		return
	}
	job := s.top.below("job")
	for _, key := range slices.Sorted(maps.Keys(env)) {
		name := map[string]string{"working_dir": "workingDir", "py_modules": "pyModules", "excludes": "excludes", "pip": "pip", "uv": "uv"}[key]
		object, isObject := env[key].(map[string]any)
		switch {
		case key == "env_vars" && isObject:
			for _, v := range slices.Sorted(maps.Keys(object)) {
				if isSecret(v, fmt.Sprint(object[v])) {
					s.secretAt(line, v)
					continue
				}
				job.below("env").set(v, fmt.Sprint(object[v]), "")
			}
		case name != "" && !isObject:
			job.set(name, env[key], "")
		default:
			job.below("runtimeEnv").set(key, env[key], "")
		}
	}
}
