package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
)

type applyOptions struct {
	dashboard app.DashboardFlags
	file      string
	noWait    bool
	output    app.Output
}

func newApply(a *app.App) *cobra.Command {
	o := &applyOptions{}
	c := &cobra.Command{
		Use:     "apply [-f SERVE.YAML | SERVE.YAML] [CLUSTER]",
		Aliases: []string{"deploy"},
		Short:   "Deploy the applications of a config file, and wait until they run",
		Long: "apply takes a config file in Serve's own format, or the serveConfigV2 of a RayService. If runtime_env.working_dir or py_modules names a local\n" +
			"directory, rayctl packs and uploads it. Requirements files (pip, uv) and conda environments (.yaml) are read on this machine, as by Ray's SDK.\n" +
			"Paths are relative to the config file.\n" +
			"An application without either whose module lies beside the config file, as `serve build` writes it, gets that directory as its working directory.\n" +
			"When all applications are RUNNING, apply prints their URLs and returns; if a deployment is unhealthy, it names the deployment and the reason.\n" +
			"Applications that the file does not name are deleted. On this machine and on Slurm, Serve listens on 127.0.0.1 and a free port, unless http_options\n" +
			"names others.",
		Example: "  rayctl serve apply -f serve.yaml\n  rayctl serve apply -f - dev < serve.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if i := slices.IndexFunc(args, func(arg string) bool { return strings.Contains(arg, ":") && !app.IsYAMLFile(arg) }); i >= 0 {
				return app.UsageError("`rayctl init serve` writes one, and so does `serve build "+shellescape.Quote(args[i])+" -o serve.yaml` of Ray",
					"%q is an application's import path, and `rayctl serve apply` needs a config file", args[i])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			args, err := o.takeFile(args)
			if err != nil {
				return err
			}
			if err := app.NoDash(1, "one cluster")(c, args); err != nil {
				return err
			}
			if err := o.chooseFile(a); err != nil {
				return err
			}
			if err := o.dashboard.FromArgument(args); err != nil {
				return err
			}
			return a.Action(func(ctx context.Context) error { return runApply(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "Serve's config `FILE`, - for stdin (default: serve.yaml here)")
	o.dashboard.Add(a, c)
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "return once Ray accepted the config")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// defaultFile is the config that is there after `rayctl init serve` and `serve build -o serve.yaml`.
const defaultFile = "serve.yaml"

// takeFile takes the config file from the arguments, and returns the others: no cluster has the name of a YAML file.
func (o *applyOptions) takeFile(args []string) ([]string, error) {
	i := slices.IndexFunc(args, app.IsYAMLFile)
	if i < 0 {
		return args, nil
	}
	if o.file != "" {
		return nil, app.UsageError("leave one of them out", "the config file is given twice: %q and by -f", args[i])
	}
	o.file = args[i]
	others := slices.Delete(slices.Clone(args), i, i+1)
	if i := slices.IndexFunc(others, app.IsYAMLFile); i >= 0 {
		return nil, app.UsageError("leave one of them out", "two config files are given: %q and %q", o.file, others[i])
	}
	return others, nil
}

// chooseFile takes serve.yaml of this directory where no file is given.
func (o *applyOptions) chooseFile(a *app.App) error {
	if o.file != "" {
		return nil
	}
	if info, err := os.Stat(defaultFile); err != nil || info.IsDir() {
		return app.UsageError("give -f FILE, or `rayctl init serve` writes one", "`rayctl serve apply` needs a config file, and there is no "+defaultFile+" here")
	}
	o.file = defaultFile
	a.UI.Note("using %s", defaultFile)
	return nil
}

// runApply finds the cluster, packs the applications' directories, applies the config and waits for it.
func runApply(ctx context.Context, a *app.App, o *applyOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	config, dir, err := readConfig(a, o.file)
	if err != nil {
		return err
	}
	apps, err := applications(o.file, config)
	if err != nil {
		return err
	}
	var names []string
	for i, application := range apps {
		name, _ := application["name"].(string)
		if name == "" {
			return launcher.Fail(runstate.CodeSpec, nil, "give it a name of its own", "%s: applications[%d] has no name", o.file, i)
		}
		names = append(names, name)
	}
	c, err := a.Connect(ctx, &o.dashboard) // before large directories are packed for a cluster that is not there
	if err != nil {
		return err
	}
	defer c.Close()
	if err := checkKeys(ctx, a, c, o.file, config); err != nil {
		return err
	}
	if err := checkSizes(ctx, a, c, o.file, config); err != nil {
		return err
	}
	p := a.NewPacker(nil)
	for i, application := range apps {
		withModule(a, dir, application)
		if err := packApplication(ctx, p, fmt.Sprintf("%s: applications[%d].runtime_env", o.file, i), dir, application); err != nil {
			return err
		}
	}
	if err := place(ctx, a, c, o.file, config); err != nil {
		return err
	}
	if err := a.Upload(ctx, c.Client, p.Packages); err != nil {
		return err
	}
	p.Tell("sent")
	if err := c.ServeApply(ctx, config); err != nil {
		return err
	}
	return awaitReady(ctx, a, c, o, names)
}

// lookAfter is when a cluster whose applications do not run yet is looked at: one that has ended does not answer, and would be waited for.
const lookAfter = 2 * time.Second

// awaitReady waits until the applications run, or their cluster has ended.
func awaitReady(ctx context.Context, a *app.App, c *app.Connection, o *applyOptions, names []string) error {
	if !o.noWait {
		started := a.Now()
		alive, look, stop := c.AwaitEnd(ctx)
		defer stop()
		defer time.AfterFunc(lookAfter, look).Stop()
		err := c.ServeWait(alive, names, func(s *dashboardclient.ServeStatus) { a.UI.Live(stateLine(s, names), started) })
		a.UI.Clear()
		switch {
		case err != nil && errors.Is(context.Cause(alive), launcher.ErrEnded):
			return launcher.Fail(runstate.CodeLost, err, fmt.Sprintf("`rayctl status %s` shows why", c.ID()), "cluster %s has ended, and its applications with it", c.ID())
		case err != nil && app.Interrupted(ctx):
			a.UI.Note("stopped watching: `rayctl serve status%s` shows the applications", c.Flags())
			return app.Exit(runstate.CodeInterrupted)
		case err != nil && app.ExitCode(err) == runstate.CodeInternal:
			return launcher.Fail(runstate.CodeStartFailed, err, "`rayctl serve status"+c.Flags()+"` shows the applications", "%s", app.Sentence(err))
		case err != nil:
			return err
		}
	}
	s, err := state(ctx, c)
	if err != nil {
		return err
	}
	if err := printStatus(a, &o.output, s); err != nil {
		return err
	}
	tellURLs(a, c, s)
	return nil
}

func stateLine(s *dashboardclient.ServeStatus, names []string) string {
	var parts []string
	for _, n := range names {
		parts = append(parts, n+" "+terminal.OrDash(s.Applications[n].Status))
	}
	return "applications: " + strings.Join(parts, ", ")
}

// readConfig reads Serve's config and returns the directory for its relative paths.
func readConfig(a *app.App, file string) (config map[string]any, dir string, err error) {
	var data []byte
	if file == "-" {
		data, err = io.ReadAll(a.In)
	} else {
		data, err = os.ReadFile(file)
		dir = filepath.Dir(file)
	}
	if err != nil {
		return nil, "", launcher.Fail(runstate.CodeSpec, err, "name a file that is there and that you may read", "Serve's config cannot be read: %v", err)
	}
	text, isService := ofRayService(data)
	if isService {
		a.UI.Note("%s is a RayService: only its serveConfigV2 is applied; its cluster is not started, nor changed", file)
		if strings.TrimSpace(string(text)) == "" {
			return nil, "", launcher.Fail(runstate.CodeSpec, nil, "write Serve's config there, as text", "the RayService in %s has no spec.serveConfigV2", file)
		}
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, "", launcher.Fail(runstate.CodeSpec, err, "correct the file", "%s: %v", file, err)
	}
	return config, dir, nil
}

// ofRayService is the config of Serve that the RayService among the documents of a file has; without one it is the file.
func ofRayService(data []byte) (config []byte, isService bool) {
	dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var o struct {
			APIVersion, Kind string
			Spec             struct{ ServeConfigV2 string }
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil { // its end, or no YAML, which is reported as that of the config
			return data, false
		}
		if json.Unmarshal(raw, &o) == nil && o.Kind == "RayService" && strings.HasPrefix(o.APIVersion, "ray.io/") {
			return []byte(o.Spec.ServeConfigV2), true
		}
	}
}

// applications returns the list that Serve's config must have.
func applications(file string, config map[string]any) ([]map[string]any, error) {
	list, ok := config["applications"].([]any)
	if !ok || len(list) == 0 {
		return nil, launcher.Fail(runstate.CodeSpec, nil, "`serve build` writes one", "%s has no applications", file)
	}
	var out []map[string]any
	for i, item := range list {
		application, ok := item.(map[string]any)
		if !ok {
			return nil, launcher.Fail(runstate.CodeSpec, nil, "write it as `serve build` does: name, import_path, deployments", "%s: applications[%d] is not a map", file, i)
		}
		out = append(out, application)
	}
	return out, nil
}

// packApplication replaces an application's local directories by packages, and files of its runtime_env by their contents; at is the name in messages.
func packApplication(ctx context.Context, p *app.Packer, at, dir string, application map[string]any) error {
	env, ok := application["runtime_env"].(map[string]any)
	if !ok {
		return nil
	}
	if excludes, ok := env["excludes"].([]any); ok {
		p.Excludes = nil
		for _, e := range excludes {
			p.Excludes = append(p.Excludes, fmt.Sprint(e))
		}
	}
	nodes := clientfiles.Nodes{}
	if local, ok := env["working_dir"].(string); ok && local != "" {
		nodes.WorkingDir = relativeTo(dir, local)
		uri, err := p.Add(ctx, "working directory", nodes.WorkingDir, pack.WorkingDir)
		if err != nil {
			return err
		}
		env["working_dir"] = uri
	}
	if err := clientfiles.ReadRuntimeEnv(at, dir, env, nodes); err != nil {
		return err
	}
	if uri, ok := env["working_dir"].(string); ok && nodes.WorkingDir != "" {
		if err := p.FromWorkingDir(env, nodes.WorkingDir, uri); err != nil {
			return err
		}
	}
	modules, _ := env["py_modules"].([]any)
	for i, m := range modules {
		uri, err := p.Add(ctx, "Python module", relativeTo(dir, fmt.Sprint(m)), pack.Module)
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
