// Package jobs has the commands on a cluster's jobs: submit, jobs, logs and stop.
package jobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

type submitOptions struct {
	dashboard    app.DashboardFlags
	command      []string
	submissionID string
	detach       bool
	metadata     []string
	cpus, gpus   float64
	memory       string
	resources    map[string]string
	labels       map[string]string
	output       app.Output
}

// NewSubmit is `rayctl submit`.
func NewSubmit(a *app.App) *cobra.Command {
	o := &submitOptions{}
	c := &cobra.Command{
		Use:   "submit [CLUSTER] [flags] [SCRIPT.py | -- COMMAND...]",
		Short: "Run a job on an existing cluster, and follow it",
		Long: "submit runs COMMAND (default: job.entrypoint of the cluster file) as a Ray job, shows its output and exits with its exit code.\n" +
			"On this machine and on Slurm the driver, its tasks and its actors run in the directory of this command, where a node has it; job.cwd and job.workingDir name another.\n" +
			"SCRIPT.py is run as -- python SCRIPT.py.\n" +
			"If there is a cluster file, its job section applies (workingDir, env and the rest); flags override it.\n" +
			"Ctrl-C stops watching, not the job. With --submission-id you can repeat the command: the driver runs once.\n" +
			"With -o stdout has only the document that -o asks for (json: the job as Ray has it,\n" +
			"with its state and submissionId as in `rayctl status -o json`), and the driver's output goes to stderr.",
		Example: "  rayctl submit -- python eval.py --step 100\n" +
			"  rayctl submit dev --working-dir . --env SEED=1 -- python a.py\n" +
			"  rayctl submit --address http://127.0.0.1:8265 -d -- python a.py",
		Args: a.AtMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			own, command := app.SplitDash(c, args)
			if err := o.dashboard.FromArgument(own); err != nil {
				return err
			}
			o.command = command
			return a.Action(func(ctx context.Context) error { return runSubmit(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	config.AddJob(c.Flags())
	o.dashboard.Add(a, c)
	f := c.Flags()
	f.StringVar(&o.submissionID, "submission-id", "", "`ID` of the job (default: a new one)")
	f.BoolVarP(&o.detach, "detach", "d", false, "return once the job is accepted, and print its id")
	f.BoolVar(&o.detach, "no-wait", false, "the same as --detach, as in ray job submit")
	f.StringArrayVar(&o.metadata, "metadata", nil, "metadata that Ray stores with the job: `KEY=VALUE`")
	f.Float64Var(&o.cpus, "entrypoint-num-cpus", 0, "`CPUs` reserved for the driver")
	f.Float64Var(&o.gpus, "entrypoint-num-gpus", 0, "`GPUs` reserved for the driver")
	f.StringVar(&o.memory, "entrypoint-memory", "", "memory reserved for the driver: `QUANTITY` such as 2Gi")
	f.StringToStringVar(&o.resources, "entrypoint-resources", nil, "custom resources reserved for the driver: `NAME=AMOUNT`")
	f.StringToStringVar(&o.labels, "entrypoint-label-selector", nil, "labels that the driver's node must have: `KEY=VALUE` (Ray 2.49 and later)")
	for _, name := range []string{"entrypoint-resources", "entrypoint-label-selector"} {
		f.Lookup(name).DefValue = "" // the help would show []
	}
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// runSubmit submits one job, follows it, and returns its exit code.
func runSubmit(ctx context.Context, a *app.App, o *submitOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if err := dashboardclient.CheckSubmissionID(o.submissionID); err != nil {
		return app.UsageError("", "--submission-id: %v", err)
	}
	a.FromEnvironment(ctx, &o.dashboard)
	job, err := jobSection(a, o)
	if err != nil {
		return err
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	a.HintShell(o.command)
	if err := checkReservation(ctx, a, c, job); err != nil {
		return err
	}
	id, err := submitJob(ctx, a, c, o, job)
	if err != nil {
		return err
	}
	a.UI.Note("job %s", id)
	if o.detach {
		return answerSubmitted(ctx, a, c, o, id)
	}
	stop := c.SubmitOffers(ctx, a.Logger())
	defer stop()
	output := app.NewDriverEnd(o.output.Driver(a))
	done, err := followJob(ctx, a, c, id, output, dashboardclient.FollowOptions{StripHeader: true})
	if err != nil {
		return err
	}
	if o.output.Format == app.FormatName {
		fmt.Fprintln(a.Out, terminal.OneLine(id))
	}
	if _, err := o.output.Structured(a.Out, documentOf(done.Job)); err != nil {
		return err
	}
	if done.Status == dashboardclient.JobFailed {
		output.HintMissing(a.UI, app.Place{Standing: c.Cluster().Remade(ctx)})
		a.HintLeftOut(output.MissingFiles())
	}
	end := app.JobOutcome(a, done.Job, done.notStarted)
	printReceipt(ctx, a, c, done)
	return end
}

// jobSection is the job section of the cluster file, overridden by flags.
func jobSection(a *app.App, o *submitOptions) (*spec.Job, error) {
	command, err := app.Entrypoint(o.command)
	if err != nil {
		return nil, err
	}
	c, err := a.Load(&o.dashboard.Config, config.Options{Entrypoint: command})
	if err != nil {
		return nil, err
	}
	if err := forRuns(c); err != nil {
		return nil, err
	}
	if err := spec.RequireEntrypoint(c.Spec, "submit"); err != nil {
		return nil, err
	}
	if c.Spec.Job.Launch.On() {
		return nil, launcher.Fail(runstate.CodeSpec, nil, "use `rayctl run`, or give --set job.launch=null for this job", "job.launch: a submitted job runs once, and not on every node")
	}
	if err := c.ReadJobFiles(o.dashboard.Address != ""); err != nil {
		return nil, err
	}
	job := c.Spec.Job
	if job.Prepare != "" {
		a.UI.Note("job.prepare does not run: it runs only on clusters that `rayctl run` creates")
	}
	metadata, err := app.Pairs("--metadata", o.metadata)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	maps.Copy(all, job.Metadata)
	maps.Copy(all, metadata)
	job.Metadata = all
	if o.dashboard.Address == "" {
		if err := app.StartHere(&job, c.Spec); err != nil {
			return nil, err
		}
	}
	if err := app.CheckProgram(o.command, &job); err != nil {
		return nil, err
	}
	if err := a.CheckSent(&job); err != nil {
		return nil, err
	}
	c.Spec.Job = job
	if err := app.CheckTemplate(c.Spec); err != nil {
		return nil, err
	}
	return &job, o.reserve(&job)
}

// runsOnly are keys that have an effect only with `run`. submit ignores them in a cluster file.
var runsOnly = []string{"job.restarts.", "job.outputDir", "job.grace", "lifetime."}

// forRuns refuses runsOnly in --set, which is for this job alone.
func forRuns(c *config.Loaded) error {
	for key, origin := range c.Origins {
		if origin.Source == "--set" && slices.ContainsFunc(runsOnly, func(only string) bool { return strings.HasPrefix(key, only) }) {
			return app.UsageError("leave it out, or use `rayctl run`, which gives the job a cluster of its own", "--set %s has no effect on a submitted job", key)
		}
	}
	return nil
}

// reserve copies the resources that are reserved for the driver into the job.
func (o *submitOptions) reserve(job *spec.Job) error {
	if !isAmount(o.cpus) || !isAmount(o.gpus) {
		return app.UsageError("correct --entrypoint-num-cpus or --entrypoint-num-gpus", "the driver's resources are numbers from 0")
	}
	if o.cpus > 0 {
		job.EntrypointCPUs = units.CPUs(o.cpus)
	}
	if o.gpus > 0 {
		job.EntrypointGPUs = o.gpus
	}
	if o.memory != "" {
		q, err := resource.ParseQuantity(o.memory)
		if err != nil || q.Sign() < 0 {
			return app.UsageError("write it like 2Gi", "--entrypoint-memory: %q is not an amount of memory", o.memory)
		}
		job.EntrypointMemory = q
	}
	if len(o.labels) > 0 {
		job.EntrypointLabelSelector = o.labels
	}
	if len(o.resources) == 0 {
		return nil
	}
	amounts := maps.Clone(job.EntrypointResources)
	if amounts == nil {
		amounts = map[string]float64{}
	}
	for name, text := range o.resources {
		var amount float64
		if _, err := fmt.Sscan(text, &amount); err != nil || !isAmount(amount) {
			return app.UsageError("write a number from 0, like "+name+"=1", "--entrypoint-resources: %q is not an amount of %s", text, name)
		}
		amounts[name] = amount
	}
	job.EntrypointResources = amounts
	return nil
}

// isAmount is also false for NaN and infinity, which Go parses but JSON cannot express.
func isAmount(n float64) bool { return n >= 0 && !math.IsInf(n, 1) }

// submitJob uploads the job's packages and submits the job.
func submitJob(ctx context.Context, a *app.App, c *app.Connection, o *submitOptions, job *spec.Job) (string, error) {
	p, err := a.Packages(job)(ctx)
	if err != nil {
		return "", err
	}
	if err := a.Upload(ctx, c.Client, p); err != nil {
		return "", err
	}
	a.UI.Clear()
	request := submitRequest(job, p, cmp.Or(o.submissionID, dashboardclient.NewSubmissionID()), c.ID())
	if o.submissionID != "" {
		if request.Nonce, err = requestNonce(request); err != nil {
			return "", err
		}
	}
	return c.SubmitJob(ctx, request)
}

// checkReservation refuses a driver whose reserved resources no node of a living cluster of rayctl has. For a group that has no node now, it compares them with the
// cluster file; if the file does not say what the group's nodes have, it does not refuse. For a cluster that rayctl did not make, it only warns.
func checkReservation(ctx context.Context, a *app.App, c *app.Connection, job *spec.Job) error {
	if orders.Reserved(job) == "" {
		return nil
	}
	ours := c.Cluster() != nil
	var nodes []orders.Node
	if ours {
		s, err := c.Cluster().Status(ctx)
		if err != nil {
			return err
		}
		ours = s.Ours
		var empty []string
		for _, g := range s.Groups {
			if g.Ready == 0 && max(g.Wanted, g.Max) > 0 {
				empty = append(empty, g.Name)
			}
		}
		if len(empty) > 0 {
			file, err := c.Cluster().Launcher.Accepted(ctx, c.ID())
			if err != nil {
				a.Logger().Debug("the cluster file is not known, so the driver's reserved resources are not checked", "error", err)
				return nil
			}
			known := false
			if nodes, known = orders.NodesOf(file, job, empty); !known {
				return nil
			}
		}
	}
	alive, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range alive {
		if n.Alive() {
			nodes = append(nodes, orders.Node{Name: "node " + cmp.Or(n.Name, n.IP), Has: n.Resources, Labels: n.Labels, OwnLabels: true})
		}
	}
	err = orders.Fits(job, nodes)
	if err != nil && !ours {
		a.UI.Warn("%v. The job waits until there is such a node", err)
		return nil
	}
	return err
}

// submitRequest is the request to Ray's job API. id is the submission id. cluster is the cluster on which the job runs, "" for a cluster given by --address.
func submitRequest(job *spec.Job, p *launcher.Packages, id string, cluster launcher.ID) dashboardclient.SubmitRequest {
	env := p.RuntimeEnv
	line, variables := driverio.Piped(driverio.InDirectory(job.Cwd, job.Entrypoint, job.CwdOptional))
	maps.Copy(variables, job.Env)
	variables[environ.SubmissionID] = id
	if cluster != "" { // nodes that rayctl started have it in their environment, other nodes of a cluster do not
		variables[environ.Run] = string(cluster)
	}
	if job.Cwd != "" {
		variables[driverio.DirectoryVariable] = driverio.Literal(job.Cwd)
	}
	env["env_vars"] = variables
	return dashboardclient.SubmitRequest{
		Entrypoint: line, SubmissionID: id, RuntimeEnv: env, Metadata: job.Metadata,
		EntrypointCPUs: float64(job.EntrypointCPUs), EntrypointGPUs: job.EntrypointGPUs,
		EntrypointMemory: job.EntrypointMemory.Value(), EntrypointResources: job.EntrypointResources,
		EntrypointLabels: job.EntrypointLabelSelector, Reserves: orders.Reserved(job),
	}
}

// requestNonce is the same for equal requests, so that a repeated command finds the job that it submitted before.
func requestNonce(r dashboardclient.SubmitRequest) (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}

func answerSubmitted(ctx context.Context, a *app.App, c *app.Connection, o *submitOptions, id string) error {
	if c.Cluster() != nil {
		a.UI.Note("the job's output is on the cluster's head and is deleted with the cluster: `rayctl logs%s %s > FILE` saves it", c.Flags(), id)
	}
	a.Next("`rayctl logs"+c.Flags()+" "+id+" -f`", "`rayctl stop"+c.Flags()+" "+id+"`")
	switch o.output.Format {
	case app.FormatJSON, app.FormatYAML:
		job, err := c.GetJob(ctx, id)
		if err != nil {
			return err
		}
		_, err = o.output.Structured(a.Out, documentOf(job))
		return err
	default:
		_, err := fmt.Fprintln(a.Out, terminal.OneLine(id))
		return err
	}
}
