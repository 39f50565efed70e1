package access

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
)

// envNames are the variables that env sets, in the order of printing.
var envNames = []string{"RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", launcher.StatusVariable, envTools}

const envTools = environ.EnvBin

type envOptions struct {
	config app.ConfigFlags
	name   string
	unset  bool
	shell  string
	python bool
	output app.Output
}

// NewEnv is `rayctl env`.
func NewEnv(a *app.App) *cobra.Command {
	o := &envOptions{}
	c := &cobra.Command{
		Use:   "env [NAME]",
		Short: "Print shell variables for Ray's own tools and notebooks",
		Long: "env prints exports for `ray job`, `serve` and ray.init(). The exports name a file with the token that only you can read; they never contain the token.\n" +
			"When the cluster's head was started again (job.restarts), run env again: address and token are others.\n" +
			"If this machine cannot connect to the cluster directly, env starts a tunnel, a process that runs until the cluster ends. RAY_ADDRESS is then a ray://\n" +
			"address, for Ray's client. PATH begins with the directory of the cluster's `ray` and `python`, if this machine has that: where the cluster is on this\n" +
			"machine, and on Slurm where ray.python is a path that the login node has.\n\n" +
			"Ray reads the variables when it is imported. In Python or a notebook that was started without them, run this before `import ray`, then ray.init():\n\n" +
			"  import subprocess\n  exec(subprocess.check_output([\"rayctl\", \"env\", \"dev\", \"--python\"], text=True))\n\n" +
			"Where that Python has no Ray, they name one that has the cluster's, or what to install.",
		Example: "  eval \"$(rayctl env dev)\" && ray job list\n  eval \"$(rayctl env dev)\" && jupyter lab\n  eval \"$(rayctl env --unset)\"\n  rayctl env --shell fish | source",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
			return a.Action(func(ctx context.Context) error { return runEnv(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().BoolVar(&o.unset, "unset", false, "print the commands that unset the variables")
	c.Flags().StringVar(&o.shell, "shell", "sh", "syntax of this `SHELL`: sh (bash, zsh), fish or python")
	c.Flags().BoolVar(&o.python, "python", false, "print lines of Python, for exec() before import ray; the same as --shell python")
	app.Complete(c, "shell", cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp))
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// runEnv prints the variables, or the commands that remove them.
func runEnv(ctx context.Context, a *app.App, o *envOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.python {
		o.shell = inPython
	}
	if !slices.Contains(shells, o.shell) {
		return app.UsageError("it takes sh, fish or python", "--shell: %q is unknown", o.shell)
	}
	if o.unset {
		return printUnset(a, o)
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config})
	if err != nil {
		return err
	}
	vars, err := variables(ctx, a, c, o.config.Flags)
	if err != nil {
		if o.output.Format == "" && o.shell != inPython {
			fmt.Fprintln(a.Out, "false") // `eval "$(rayctl env)" && ...` must not go on
		}
		return err
	}
	if done, err := o.output.Structured(a.Out, vars); done || err != nil {
		return err
	}
	ray := ""
	if o.shell == inPython {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		ray = ownRay(string(c.ID), vars[envTools], s.Head.RayVersion)
	}
	return printVars(a.Out, o.shell, vars, ray)
}

// variables returns the variables of one cluster, by name.
func variables(ctx context.Context, a *app.App, c *app.Cluster, flags *pflag.FlagSet) (map[string]string, error) {
	e, err := a.Dial(ctx, c, launcher.Dashboard)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	vars := map[string]string{"RAY_AUTH_MODE": "disabled"}
	if e.DialContext != nil {
		err = throughTunnel(ctx, a, c, e, flags, vars)
	} else {
		vars["RAY_API_SERVER_ADDRESS"] = e.URL
		err = direct(ctx, c, vars)
	}
	if err != nil {
		return nil, err
	}
	tools, err := c.Launcher.FindTools(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	if tools != "" {
		vars[envTools] = tools
	}
	if e.Token == "" {
		return vars, nil
	}
	path, err := a.TokenFile(c, e.Token)
	if err != nil {
		return nil, err
	}
	vars["RAY_AUTH_MODE"], vars["RAY_AUTH_TOKEN_PATH"] = "token", path
	return vars, nil
}

// direct adds what a machine that reaches the cluster has.
func direct(ctx context.Context, c *app.Cluster, vars map[string]string) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if s.Head.Address != "" && reachable(ctx, s.Head.Address) {
		vars["RAY_ADDRESS"] = s.Head.Address
		if !spec.SubstrateOf(c.Launcher.Name()).SingleNodes { // KubeRay's heads have an autoscaler
			vars[launcher.StatusVariable] = launcher.StatusValue
		}
	}
	return nil
}

// throughTunnel adds the addresses of a tunnel.
func throughTunnel(ctx context.Context, a *app.App, c *app.Cluster, e *launcher.Endpoint, flags *pflag.FlagSet, vars map[string]string) error {
	ports, err := openTunnel(ctx, a, c, e, flags)
	if err != nil {
		return err
	}
	a.UI.Note("a tunnel to %s stays on this machine until the cluster ends", c.ID)
	vars["RAY_API_SERVER_ADDRESS"] = "http://" + ports.Dashboard
	if ports.Client != "" {
		vars["RAY_ADDRESS"] = "ray://" + ports.Client
	}
	return nil
}

// reachable reports whether this machine can connect to a port of the cluster.
func reachable(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
