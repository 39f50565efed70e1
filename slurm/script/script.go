// Package script makes the batch script and the keeper's orders of a cluster from its cluster file. It connects to nothing.
package script

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"al.essio.dev/pkg/shellescape"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Roles of the keeper's program (keeper/__main__.py) that only Slurm has.
const (
	RoleBatch = "slurm-batch" // what the batch script executes: it makes the attempt's directory and becomes the keeper
	RoleRelay = "slurm-relay" // carries connections over a step's standard streams
	RoleExec  = "slurm-exec"  // runs a command in a step and passes on what it writes
	// RoleNetwork prints a node's address and the number of free ports there. Its arguments are slurm.network, slurm.ports, the number of nodes and the
	// number of ports that one node needs.
	RoleNetwork = "slurm-network"
	// RoleLook imports Ray as a supervisor would start it, and prints its version. Its argument is a directory with the orders that DoctorOrders returns.
	RoleLook = "slurm-look"
	// RoleReach finds whether two nodes reach each other. Its arguments are listen or connect, a directory, slurm.network and slurm.ports.
	RoleReach = "slurm-reach"
)

var scriptTemplate = template.Must(template.New(File).Parse(batchScript))

// Directives are the options of sbatch for one component of the cluster's job, one on a line, without #SBATCH. first: c is the job's first component, which also
// has the options of the whole job.
func (p Plan) Directives(c Component, first bool) []string {
	var own []string
	if first {
		own = p.firstDirectives()
	}
	return p.directives(c, first && !p.Spec.Head.Early, own)
}

// directives are the options of one component: those that follow from its group, with own among them, the options of the whole job. licensed: the component may
// ask for licences.
func (p Plan) directives(c Component, licensed bool, own []string) []string {
	r, group, size := c.Request, c.Request.Slurm, p.Size(c)
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, name+"="+quote(value))
		}
	}
	out = append(out, size...)
	add("--gpus-per-node", r.GPUs)
	for _, o := range Where(group, r.Constraint) {
		add(o[0], o[1])
	}
	add("--switches", group.Switches)
	if group.Exclusive != nil && *group.Exclusive {
		out = append(out, "--exclusive")
	}
	add("--time", p.TimeLimit())
	add("--clusters", p.Cluster) // without it a federation puts a copy of the job on each of its clusters
	out = append(out, own...)
	for _, a := range p.ExtraArgs(c, licensed) {
		out = append(out, quote(a))
	}
	return out
}

// Where returns the options of sbatch and srun, each with its value or "", that decide which nodes a group can get and under which account and limits.
func Where(g slurmspec.Group, constraint string) [][2]string {
	return [][2]string{
		{"--partition", g.Partition}, {"--account", g.Account}, {"--qos", g.QOS}, {"--reservation", g.Reservation}, {"--constraint", constraint},
		{"--nodelist", g.Nodelist}, {"--exclude", g.Exclude},
	}
}

// ExtraArgs are the component's slurm.extraArgs. first: the component may ask for licences. In a heterogeneous job that is only the first component; in a cluster
// with an early head it is the gang's component, not the head's.
func (p Plan) ExtraArgs(c Component, first bool) (out []string) {
	for _, a := range c.Request.Slurm.ExtraArgs {
		licences := strings.HasPrefix(a, "--licenses") || strings.HasPrefix(a, "-L")
		if first || !licences || !slices.Contains(slurmspec.Of(p.Spec).ExtraArgs, a) {
			out = append(out, a)
		}
	}
	return out
}

// Size returns the options for the number of tasks and for the size of each; a task is one worker. If all workers of the job are equal and have no GPUs, Slurm may
// put several of them on a node. Otherwise each worker gets another node, whose rest other jobs may use: before 24.11, srun cannot start several tasks on a node
// of a heterogeneous job, nor several tasks with their own GPUs.
func (p Plan) Size(c Component) []string {
	r := c.Request
	var out []string
	if r.CPUs > 0 {
		out = []string{fmt.Sprintf("--cpus-per-task=%d", r.CPUs)}
	}
	if c.Nodes > 1 && p.placedBySlurm() { // c.Nodes is 1 in a companion job, whose group may differ from those that placedBySlurm looks at
		if mebibytes, cpus := Megabytes(r.Memory), r.CPUs; mebibytes > 0 {
			out = append(out, fmt.Sprintf("--mem-per-cpu=%dM", (mebibytes+cpus-1)/cpus))
		}
		return append([]string{fmt.Sprintf("--ntasks=%d", c.Nodes)}, out...)
	}
	if r.Memory != "" {
		out = append(out, "--mem="+r.Memory)
	}
	return append([]string{fmt.Sprintf("--nodes=%d", c.Nodes), "--ntasks-per-node=1"}, out...)
}

// placedBySlurm reports whether Slurm may put several workers on a node. A cluster file that names nodes or requests whole nodes gets one worker on each.
func (p Plan) placedBySlurm() bool {
	all := p.Components()
	if p.Spec.Head.Early { // an early head has a job of its own: its node is not shared with workers
		all = p.Gang()
	}
	return len(all) == 1 && all[0].Nodes > 1 && all[0].Request.GPUs == "" && !all[0].Request.Whole && all[0].Request.Slurm.Nodelist == ""
}

// firstDirectives are the options of the job as a whole.
func (p Plan) firstDirectives() []string {
	s := p.Spec
	out := []string{
		"--job-name=" + quote(s.Name),
		"--comment=" + quote(p.Comment()),
		"--output=" + quote(strings.ReplaceAll(path.Join(p.Run, OutFile), "%", "%%")),
		"--open-mode=append", "--chdir=" + quote(p.Run),
		p.warningDirective(),
	}
	if slurmspec.Of(s).Dependency != "" {
		out = append(out, "--dependency="+quote(slurmspec.Of(s).Dependency))
	}
	if slurmspec.Of(s).Begin != "" {
		out = append(out, "--begin="+quote(slurmspec.Of(s).Begin))
	}
	if d := p.Deadline(); d != "" {
		out = append(out, "--deadline="+d)
	}
	if !p.Requeues() {
		return append(out, "--no-requeue")
	}
	return append(out, "--requeue")
}

// Requeues reports whether Slurm may start the job again: for the next attempt.
func (p Plan) Requeues() bool {
	r := p.Spec.Job.Restarts
	return p.Spec.Job.Entrypoint != "" && (*r.Preempted != 0 || r.NodeFailure != 0 || r.TimeLimit != 0)
}

// EndSlack is the time that the keeper needs after the driver's grace to save everything.
const EndSlack = time.Minute

// Warning is how long before the job's time limit Slurm sends the keeper a signal.
func (p Plan) Warning() time.Duration {
	return time.Duration(*p.Spec.Job.Grace) + EndSlack
}

// warningDirective asks Slurm to send that signal to the batch script.
func (p Plan) warningDirective() string {
	return fmt.Sprintf("--signal=B:USR1@%d", int(p.Warning().Seconds()))
}

// TimeLimit is the value of --time, in minutes: lifetime.max and the time that the end takes, so that the keeper ends the cluster before Slurm does. If no
// partition allows that sum, it is the longest time that one allows; then Slurm's warning, some minutes before lifetime.max, makes the keeper end the cluster. "": no --time.
func (p Plan) TimeLimit() string {
	if limit := p.timeLimit(); limit > 0 {
		return strconv.Itoa(limit)
	}
	return ""
}

func (p Plan) timeLimit() (minutes int) {
	limit, bound := p.Spec.Lifetime.Max.Bound()
	if !bound {
		return 0
	}
	limit += p.AfterMax()
	if p.longest > 0 {
		limit = min(limit, p.longest)
	}
	return Minutes(limit)
}

// AfterMax is the time between lifetime.max and the job's time limit. Slurm may warn up to a minute early, and the keeper ends the cluster at the warning.
func (p Plan) AfterMax() time.Duration { return p.Warning() + 2*time.Minute }

// Minutes is a duration in Slurm's unit of time limits.
func Minutes(d time.Duration) int { return int((d + time.Minute - 1) / time.Minute) }

// File is what the batch script is called in the run's directory.
const File = "slurm.sh"

// OutFile has the batch script's output until the keeper opens its own log.
const OutFile = "slurm.out"

// Script renders the batch script.
func (p Plan) Script() (string, error) {
	if err := p.printable(); err != nil {
		return "", err
	}
	var components [][]string
	for i, c := range p.Components() {
		if p.isInside() { // the cluster runs in an existing allocation, so no sbatch reads directives
			break
		}
		components = append(components, p.Directives(c, i == 0))
	}
	var b strings.Builder
	err := scriptTemplate.Execute(&b, map[string]any{
		"Components": components, "Python": shellescape.QuoteCommand(p.OnHost(p.HostPython())), "Program": quote(path.Join(p.Programs, keeperzip.File)), "Role": RoleBatch, "RunDir": quote(p.Run), "Nonce": quote(p.Nonce), "Inside": p.insideArgument(),
	})
	if err != nil {
		return "", fmt.Errorf("render the batch script: %w", err)
	}
	return b.String(), nil
}

// printable refuses values that a line of the script cannot hold.
func (p Plan) printable() error {
	for _, c := range slices.Concat(p.Components(), p.Gang()) {
		g := c.Request.Slurm
		for _, v := range append([]string{g.Partition, g.Account, g.QOS, g.Reservation, g.Constraint, g.Nodelist, g.Exclude, g.Switches,
			slurmspec.Of(p.Spec).Comment, slurmspec.Of(p.Spec).Dependency, slurmspec.Of(p.Spec).Begin, p.HostPython(), p.Run}, g.ExtraArgs...) {
			if strings.ContainsAny(v, "\n\r\x00") {
				return launcher.Fail(runstate.CodeSpec, nil, "write it in one line", "the value %q cannot be given to Slurm", v)
			}
		}
	}
	return nil
}

func quote(word string) string { return shellescape.Quote(word) }

// Megabytes returns the number in a memory such as "1536000M" or "0".
func Megabytes(memory string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(memory, "M")) // written by request and Size
	return n
}
