package slurm

import (
	"fmt"
	"path"
	"reflect"
	"strconv"
	"strings"
	"text/template"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/templates"
)

var scriptTemplate = template.Must(template.New("slurm.sh").Parse(templates.SlurmScript))

// component is a part of the job whose nodes are alike: groups that ask Slurm for the same are one.
type component struct {
	request request
	nodes   int
}

// request is what one node of a component asks for.
type request struct {
	cpus       int
	memory     string // as --mem takes it, "" is Slurm's default
	whole      bool   // a node for itself
	gpus       string // [type:]count
	constraint string
	slurm      spec.SlurmGroup
}

// components joins neighbouring groups with equal requests, so that tasks count over the groups in the orders' sequence.
func (p plan) components() []component {
	var out []component
	for _, g := range p.spec.NodeGroups() {
		if g.Count == 0 {
			continue
		}
		r := p.request(g)
		if n := len(out); n > 0 && reflect.DeepEqual(out[n-1].request, r) {
			out[n-1].nodes += g.Count
			continue
		}
		out = append(out, component{request: r, nodes: g.Count})
	}
	return out
}

func (p plan) request(g spec.NodeGroup) request {
	r := request{cpus: int(g.CPUs), whole: p.exclusive(g), slurm: p.spec.SlurmFor(g)}
	if r.cpus == 0 && !r.whole {
		r.cpus = 1
	}
	if mebibytes := mebibytesOf(g); mebibytes > 0 {
		r.memory = fmt.Sprintf("%dM", mebibytes)
	} else if r.whole {
		r.memory = "0" // all of the node's
	}
	if r.constraint = r.slurm.Constraint; g.GPUs > 0 {
		r.gpus = fmt.Sprint(g.GPUs)
		if g.GPUType != "" {
			t, _ := p.spec.GPUTypeOf(g.GPUType)
			if t.Gres != "" && t.Constraint == "" || p.spec.GPUTypes[g.GPUType].Gres != "" {
				r.gpus = t.Gres + ":" + r.gpus
			}
			r.constraint = strings.Trim(r.constraint+"&"+t.Constraint, "&")
		}
	}
	return r
}

// mebibytesOf is the memory that a group's file asks for, 0 if it does not.
func mebibytesOf(g spec.NodeGroup) int64 {
	const mib = 1 << 20
	return (g.Memory.Value() + mib - 1) / mib
}

// directives are the lines of one component, without #SBATCH.
func (p plan) directives(c component, first bool) []string {
	r, group, size := c.request, c.request.slurm, p.size(c)
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, name+"="+quote(value))
		}
	}
	out = append(out, size...)
	add("--gpus-per-node", r.gpus)
	add("--partition", group.Partition)
	add("--account", group.Account)
	add("--qos", group.QOS)
	add("--reservation", group.Reservation)
	add("--constraint", r.constraint)
	add("--nodelist", group.Nodelist)
	add("--exclude", group.Exclude)
	add("--switches", group.Switches)
	if group.Exclusive != nil && *group.Exclusive {
		out = append(out, "--exclusive")
	}
	add("--time", p.timeLimit())
	if first {
		out = append(out, p.firstDirectives()...)
	}
	for _, a := range group.ExtraArgs {
		out = append(out, quote(a))
	}
	return out
}

// size says how many tasks of which size there are, one for each worker. Slurm places the workers of a job of equal workers without GPUs, several on
// a node where they fit. Otherwise each has a node of its own, of which others may have the rest: several tasks on a node of a heterogeneous job, or with GPUs of
// their own, are beyond srun before 24.11.
func (p plan) size(c component) []string {
	r := c.request
	var out []string
	if r.cpus > 0 {
		out = []string{fmt.Sprintf("--cpus-per-task=%d", r.cpus)}
	}
	if p.placedBySlurm() {
		if mebibytes, cpus := megabytes(r.memory), r.cpus; mebibytes > 0 {
			out = append(out, fmt.Sprintf("--mem-per-cpu=%dM", (mebibytes+cpus-1)/cpus))
		}
		return append([]string{fmt.Sprintf("--ntasks=%d", c.nodes)}, out...)
	}
	if r.memory != "" {
		out = append(out, "--mem="+r.memory)
	}
	return append([]string{fmt.Sprintf("--nodes=%d", c.nodes), "--ntasks-per-node=1"}, out...)
}

// placedBySlurm says whether a node may have several workers. Who names nodes, or wants whole ones, wants one on each.
func (p plan) placedBySlurm() bool {
	all := p.components()
	return len(all) == 1 && all[0].nodes > 1 && all[0].request.gpus == "" && !all[0].request.whole && all[0].request.slurm.Nodelist == ""
}

// firstDirectives are those of the job as a whole.
func (p plan) firstDirectives() []string {
	s := p.spec
	out := []string{
		"--job-name=" + quote(s.Name),
		"--comment=" + quote(comment(s.Name, spec.Hash(s), p.nonce)),
		"--output=" + quote(strings.ReplaceAll(path.Join(p.run, outFile), "%", "%%")),
		"--open-mode=append", "--chdir=" + quote(p.run),
		fmt.Sprintf("--signal=B:USR1@%d", int(p.warning().Seconds())),
	}
	if s.Slurm.Dependency != "" {
		out = append(out, "--dependency="+quote(s.Slurm.Dependency))
	}
	if s.Slurm.Begin != "" {
		out = append(out, "--begin="+quote(s.Slurm.Begin))
	}
	if d := p.deadline(); d != "" {
		out = append(out, "--deadline="+d)
	}
	if !p.requeues() {
		return append(out, "--no-requeue")
	}
	return append(out, "--requeue")
}

// requeues says whether Slurm may start the job again: for the next attempt.
func (p plan) requeues() bool {
	r := p.spec.Job.Restarts
	return p.spec.Job.Entrypoint != "" && (*r.Preempted != 0 || r.NodeFailure != 0 || r.TimeLimit != 0)
}

// endSlack is what the keeper needs after the driver's grace to save everything.
const endSlack = time.Minute

// warning is how long before its time limit Slurm tells the keeper.
func (p plan) warning() time.Duration {
	return time.Duration(*p.spec.Job.Grace) + endSlack
}

// timeLimit is lifetime.max and what the end takes, in Slurm's minutes: the keeper ends by itself before.
func (p plan) timeLimit() string {
	limit, bound := p.spec.Lifetime.Max.Bound()
	if !bound {
		return ""
	}
	return strconv.Itoa(minutes(limit + p.afterMax()))
}

// afterMax is what the end takes after lifetime.max. Slurm warns up to a minute early, and a warning is the end.
func (p plan) afterMax() time.Duration { return p.warning() + 2*time.Minute }

// minutes is a duration in Slurm's unit of time limits.
func minutes(d time.Duration) int { return int((d + time.Minute - 1) / time.Minute) }

// deadline ends a job that waited longer than lifetime.queue though nobody watches. Slurm can do that only where there is a time limit, and only
// of a job that starts once: a requeued one would be held to it again, and nobody may move it once the job has begun (measured: 24.11).
func (p plan) deadline() string {
	if p.requeues() {
		return ""
	}
	queue, bound := p.spec.Lifetime.Queue.Bound()
	limit, limited := p.spec.Lifetime.Max.Bound()
	if !bound || !limited {
		return ""
	}
	seconds := (queue + limit + p.warning() + 3*time.Minute).Seconds()
	return fmt.Sprintf("now+%dseconds", int(seconds))
}

// outFile takes what the batch script says before the keeper has its own log.
const outFile = "slurm.out"

// script renders the batch script.
func (p plan) script() (string, error) {
	if err := p.printable(); err != nil {
		return "", err
	}
	var components [][]string
	for i, c := range p.components() {
		components = append(components, p.directives(c, i == 0))
	}
	var b strings.Builder
	err := scriptTemplate.Execute(&b, map[string]any{
		"Components": components, "Python": quote(p.hostPython()), "Start": quote(path.Join(p.programs, templates.SlurmBatch)), "RunDir": quote(p.run), "Nonce": quote(p.nonce),
	})
	if err != nil {
		return "", fmt.Errorf("render the batch script: %w", err)
	}
	return b.String(), nil
}

// printable refuses values that a line of the script cannot hold.
func (p plan) printable() error {
	for _, c := range p.components() {
		g := c.request.slurm
		for _, v := range append([]string{g.Partition, g.Account, g.QOS, g.Reservation, g.Constraint, g.Nodelist, g.Exclude, g.Switches,
			p.spec.Slurm.Dependency, p.spec.Slurm.Begin, p.hostPython(), p.run}, g.ExtraArgs...) {
			if strings.ContainsAny(v, "\n\r\x00") {
				return launcher.Fail(runstate.CodeSpec, nil, "write it in one line", "the value %q cannot be given to Slurm", v)
			}
		}
	}
	return nil
}

func quote(word string) string { return shellescape.Quote(word) }
