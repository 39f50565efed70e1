package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/spec"
)

type renderOptions struct {
	config  app.ConfigFlags
	command []string
	origin  bool
	spec    bool
	up      bool
	network bool
	dir     string
	output  app.Output
}

// NewRender is `rayctl render`.
func NewRender(a *app.App) *cobra.Command {
	o := &renderOptions{}
	c := &cobra.Command{
		Use:   "render [-f FILE] [flags] [-- COMMAND...]",
		Short: "Show exactly what a launch would create, without secrets",
		Long: "render prints the files and objects that `run` would create, and does not connect to Slurm or Kubernetes. --spec prints the cluster file merged with all\n" +
			"profiles, variables and flags instead, --origin the origin of each value: FILE:LINE, a profile, a flag, a variable or default. --networkpolicy prints the\n" +
			"NetworkPolicies that a cluster needs in a Kubernetes namespace that denies traffic by default. In Slurm's batch script HOME is the home directory on the side of\n" +
			"Slurm and NONCE a number of each launch, which only a launch knows.",
		Example: "  rayctl render -- python train.py\n  rayctl render --origin\n  rayctl render --dir out/\n  rayctl render --networkpolicy | kubectl apply -f -",
		Args:    a.AtMost(0),
		RunE: func(c *cobra.Command, args []string) error {
			_, o.command = app.SplitDash(c, args)
			return a.Action(func(ctx context.Context) error { return runRender(ctx, a, o) })(c, args)
		},
	}
	o.config.AddSpec(c)
	f := c.Flags()
	f.BoolVar(&o.origin, "origin", false, "show each value and where it came from")
	f.BoolVar(&o.spec, "spec", false, "show the cluster file after all layers")
	f.BoolVar(&o.up, "up", false, "show what rayctl up would create")
	f.BoolVar(&o.network, "networkpolicy", false, "show the NetworkPolicies for a namespace that denies by default")
	f.StringVar(&o.dir, "dir", "", "write the files into this `DIR`")
	c.MarkFlagsMutuallyExclusive("origin", "spec", "dir")
	c.MarkFlagsMutuallyExclusive("origin", "spec", "networkpolicy")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// NewValidate is `rayctl validate`: render without output.
func NewValidate(a *app.App) *cobra.Command {
	o := &renderOptions{}
	c := &cobra.Command{
		Use:   "validate [-f FILE] [flags] [-- COMMAND...]",
		Short: "Check the cluster file and the flags; create nothing",
		Long: "validate reads the cluster file, the profile, the variables and the flags, and checks them as a launch does, but creates nothing.\n" +
			"It does not connect to Slurm or Kubernetes: `rayctl doctor` checks whether the launcher's machine or cluster can run the file.",
		Example: "  rayctl validate\n  rayctl validate -f site.yaml --profile big\n  rayctl validate --up",
		Args:    a.AtMost(0),
		RunE: func(c *cobra.Command, args []string) error {
			_, o.command = app.SplitDash(c, args)
			return a.Action(func(context.Context) error { return runValidate(a, o) })(c, args)
		},
	}
	o.config.AddSpec(c)
	c.Flags().BoolVar(&o.up, "up", false, "check what rayctl up would create, which needs no command")
	return c
}

// runValidate renders and prints only that it is possible.
func runValidate(a *app.App, o *renderOptions) error {
	c, err := loadRendered(a, o)
	if err != nil {
		return err
	}
	if !o.up && len(o.command) == 0 && c.Spec.Job.Entrypoint == "" && c.File != "" { // a file for `up`
		o.up = true
		a.UI.Note("%s has no job: it is checked as for `rayctl up`", c.File)
		if c, err = loadRendered(a, o); err != nil {
			return err
		}
	}
	if !o.up {
		if err := spec.RequireEntrypoint(c.Spec, "run"); err != nil {
			return err
		}
		if err := a.CheckRun(c, o.command); err != nil {
			return err
		}
	} else {
		if err := app.CheckTemplate(c.Spec); err != nil {
			return err
		}
		if err := a.CheckLaunched(c.Spec); err != nil {
			return err
		}
	}
	if _, err := config.ReadSecrets(c.Spec, a.Getenv); err != nil {
		return err
	}
	if _, err := rendered(a, o, c); err != nil {
		return err
	}
	l, err := a.Launcher(c)
	if err != nil {
		return err
	}
	a.NoteUnused(c.Spec, l)
	a.UI.Note("Valid; it would start %s (%s)", c.On(), c.Reason)
	return nil
}

func loadRendered(a *app.App, o *renderOptions) (*config.Loaded, error) {
	command, err := app.Entrypoint(o.command)
	if err != nil {
		return nil, err
	}
	return a.Load(&o.config, config.Options{Entrypoint: command, Up: o.up})
}

// rendered is what a launch would create.
func rendered(a *app.App, o *renderOptions, c *config.Loaded) ([]launcher.File, error) {
	if o.up {
		c.Spec.Job = config.JobOfUp(c.Spec)
	}
	if err := c.ReadPackages(!o.up); err != nil {
		return nil, err
	}
	if err := c.ReadJobFiles(false); err != nil {
		return nil, err
	}
	if o.up {
		app.AddServe(c)
	}
	l, err := a.Launcher(c)
	if err != nil {
		return nil, err
	}
	if o.network {
		files, err := l.RenderNetwork(c.Spec)
		if err == nil && files == nil {
			err = launcher.Unsupported(l, "render --networkpolicy", "leave --networkpolicy out: only KubeRay has network policies")
		}
		return files, err
	}
	return l.Render(c.Spec)
}

// runRender shows the configuration in one of its three forms.
func runRender(_ context.Context, a *app.App, o *renderOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := loadRendered(a, o)
	if err != nil {
		return err
	}
	switch {
	case o.origin:
		return printOrigins(a, o, c)
	case o.spec:
		if done, err := o.output.Structured(a.Out, c.Spec); done || err != nil {
			return err
		}
		return terminal.WriteYAML(a.Out, c.Spec)
	}
	files, err := rendered(a, o, c)
	if err != nil {
		return err
	}
	if o.dir != "" {
		return writeFiles(a, o.dir, files)
	}
	return printFiles(a, o, files)
}

func printOrigins(a *app.App, o *renderOptions, c *config.Loaded) error {
	values, err := c.Values()
	if err != nil {
		return err
	}
	if done, err := o.output.Structured(a.Out, values); done || err != nil {
		return err
	}
	rows := [][]string{{"KEY", "VALUE", "FROM"}}
	for _, v := range values {
		rows = append(rows, []string{v.Path, terminal.Shorten(v.Value, false), v.Origin})
	}
	return terminal.Table(a.Out, rows)
}

func printFiles(a *app.App, o *renderOptions, files []launcher.File) error {
	type file struct {
		Name    string `json:"name"`
		Content string `json:"content"`
	}
	var list []file
	for _, f := range files {
		list = append(list, file{f.Name, string(f.Content)})
	}
	if done, err := o.output.Structured(a.Out, terminal.NonNil(list)); done || err != nil {
		return err
	}
	for _, f := range files {
		if o.output.Format == app.FormatName {
			fmt.Fprintln(a.Out, f.Name)
			continue
		}
		mark := "# ---" // a comment in scripts and orders
		if strings.HasSuffix(f.Name, ".yaml") {
			mark = "---\n#" // a document of a stream, for `kubectl apply -f -`
		}
		fmt.Fprintf(a.Out, "%s %s\n%s\n", mark, f.Name, f.Content)
	}
	return nil
}

func writeFiles(a *app.App, dir string, files []launcher.File) error {
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing the rendered files: %w", err)
		}
		if err := sharedfile.Write(path, f.Content, 0o644); err != nil {
			return fmt.Errorf("writing the rendered files: %w", err)
		}
		fmt.Fprintln(a.Out, path)
	}
	return nil
}
