package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

type serveApplyOptions struct {
	dashboard dashboardOptions
	file      string
	noWait    bool
	output    output
}

func newServeApply(a *App) *cobra.Command {
	o := &serveApplyOptions{}
	c := &cobra.Command{
		Use:   "apply -f SERVE.YAML [CLUSTER]",
		Short: "Make Serve run what a config file says, and wait until it does",
		Long: "apply takes Serve's own config file. A runtime_env.working_dir or py_modules that is a local directory is packed and uploaded,\n" +
			"a requirements file (pip, uv) or conda environment (.yaml) is read here, as Ray's SDK does; relative to the file.\n" +
			"It returns when all applications are RUNNING, or says which deployment is unhealthy and why. Applications that the file does not name are deleted.",
		Example: "  rayctl serve apply -f serve.yaml\n  rayctl serve apply -f - dev < serve.yaml",
		Args:    noDash(1, "one cluster"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.file == "" {
				return usageError("give -f serve.yaml", "`rayctl serve apply` needs a config file")
			}
			if err := o.dashboard.fromArgument(args); err != nil {
				return err
			}
			return a.action(func(ctx context.Context) error { return runServeApply(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.completeClusters,
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "Serve's config `FILE`, - for stdin")
	o.dashboard.add(a, c)
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "return once Ray accepted the config")
	o.output.add(c, formatJSON, formatYAML, formatName)
	return c
}

// runServeApply packs the applications' directories, applies the config and waits for it.
func runServeApply(ctx context.Context, a *App, o *serveApplyOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	config, dir, err := a.readServe(o.file)
	if err != nil {
		return err
	}
	apps, err := applications(o.file, config)
	if err != nil {
		return err
	}
	p := a.newPacker(nil)
	var names []string
	for i, app := range apps {
		if err := p.packApplication(ctx, fmt.Sprintf("%s: applications[%d].runtime_env", o.file, i), dir, app); err != nil {
			return err
		}
		name, _ := app["name"].(string)
		if name == "" {
			return launcher.Fail(runstate.CodeSpec, nil, "", "%s: applications[%d] has no name", o.file, i)
		}
		names = append(names, name)
	}
	c, err := a.connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.close()
	if err := a.upload(ctx, c.Client, p.out); err != nil {
		return err
	}
	if err := c.ServeApply(ctx, config); err != nil {
		return err
	}
	return a.serveReady(ctx, c, o, names)
}

func (a *App) serveReady(ctx context.Context, c *connection, o *serveApplyOptions, names []string) error {
	if !o.noWait {
		started := a.Now()
		err := c.ServeWait(ctx, names, func(s *dashboardclient.ServeStatus) { a.ui.live(serveLine(s, names), started) })
		a.ui.clear()
		switch {
		case err != nil && interrupted(ctx):
			a.ui.note("stopped watching: `rayctl serve status%s` shows the applications", c.flags())
			return exitCode(runstate.CodeInterrupted)
		case err != nil && exitCodeOf(err) == runstate.CodeInternal:
			return launcher.Fail(runstate.CodeStartFailed, err, "", "%s", sentence(err))
		case err != nil:
			return err
		}
	}
	s, err := c.GetServe(ctx)
	if err != nil {
		return err
	}
	return a.printServe(&o.output, s)
}

func serveLine(s *dashboardclient.ServeStatus, names []string) string {
	var parts []string
	for _, n := range names {
		parts = append(parts, n+" "+orDash(s.Applications[n].Status))
	}
	return "applications: " + strings.Join(parts, ", ")
}

// readServe reads Serve's config and returns the directory for its relative paths.
func (a *App) readServe(file string) (config map[string]any, dir string, err error) {
	var data []byte
	if file == "-" {
		data, err = io.ReadAll(a.In)
	} else {
		data, err = os.ReadFile(file)
		dir = filepath.Dir(file)
	}
	if err != nil {
		return nil, "", launcher.Fail(runstate.CodeSpec, err, "", "Serve's config cannot be read: %v", err)
	}
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, "", launcher.Fail(runstate.CodeSpec, err, "", "%s: %v", file, err)
	}
	return config, dir, nil
}

// applications returns the list that Serve's config must have.
func applications(file string, config map[string]any) ([]map[string]any, error) {
	list, ok := config["applications"].([]any)
	if !ok || len(list) == 0 {
		return nil, launcher.Fail(runstate.CodeSpec, nil, "`serve build` writes one", "%s has no applications", file)
	}
	var out []map[string]any
	for i, item := range list {
		app, ok := item.(map[string]any)
		if !ok {
			return nil, launcher.Fail(runstate.CodeSpec, nil, "", "%s: applications[%d] is not a map", file, i)
		}
		out = append(out, app)
	}
	return out, nil
}

// packApplication replaces an application's local directories by packages, and files of its runtime_env by their contents; at is the name in messages.
func (p *packer) packApplication(ctx context.Context, at, dir string, app map[string]any) error {
	env, ok := app["runtime_env"].(map[string]any)
	if !ok {
		return nil
	}
	if excludes, ok := env["excludes"].([]any); ok {
		p.excludes = nil
		for _, e := range excludes {
			p.excludes = append(p.excludes, fmt.Sprint(e))
		}
	}
	if local, ok := env["working_dir"].(string); ok && local != "" {
		uri, err := p.add(ctx, "working directory", relativeTo(dir, local), pack.WorkingDir)
		if err != nil {
			return err
		}
		env["working_dir"] = uri
	}
	if err := spec.ReadRuntimeEnv(at, dir, env); err != nil {
		return err
	}
	modules, _ := env["py_modules"].([]any)
	for i, m := range modules {
		uri, err := p.add(ctx, "Python module", relativeTo(dir, fmt.Sprint(m)), pack.Module)
		if err != nil {
			return err
		}
		modules[i] = uri
	}
	return nil
}

func relativeTo(dir, path string) string {
	if pack.IsRemote(path) || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
