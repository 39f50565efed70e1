package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/wholefile"
	"github.com/rayctl/rayctl/templates/workloads"
)

type initOptions struct {
	template string
	dir      string
	force    bool
	from     string
}

// NewInit is `rayctl init`.
func NewInit(a *app.App) *cobra.Command {
	o := &initOptions{}
	var kinds []string
	for _, w := range workloads.List() {
		kinds = append(kinds, fmt.Sprintf("  %-6s  %s", w.Name, w.About))
	}
	c := &cobra.Command{
		Use:   "init [TEMPLATE | --from FILE]",
		Short: "Write a commented rayctl.yaml and a small script to begin with",
		Long: "init writes a cluster file and a script that run as they are, or what a CI system needs to run them. Clusters are named after the directory. Templates (default: basic):\n\n" + strings.Join(kinds, "\n") +
			"\n\n--from FILE writes the rayctl.yaml of what starts Ray by hand today: a batch script (#SBATCH lines, srun, `ray start` or `ray symmetric-run`), a RayJob or\n" +
			"RayCluster of KubeRay, or a file with a `ray job submit` line; - is standard input. The script is read, not run. What is not translated, and what is to be\n" +
			"checked, stands in the file's first lines and on stderr. Values of secrets are not copied.",
		Example: "  rayctl init && rayctl run\n  rayctl init grpo --dir my-run\n  rayctl init github\n  rayctl init --from train.sbatch\n  rayctl init --from rayjob.yaml",
		Args:    app.NoDash(1, "one template"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.template = args[0]
			}
			if c.Flags().Changed("from") {
				if len(args) > 0 || c.Flags().Changed("template") {
					return app.UsageError("leave one of them out", "a template and --from exclude one another")
				}
				return a.Action(func(context.Context) error { return runInitFrom(a, o) })(c, args)
			}
			return a.Action(func(ctx context.Context) error { return runInit(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return templateNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&o.template, "template", "basic", "the same as the argument `TEMPLATE`")
	c.Flags().Lookup("template").Hidden = true
	c.Flags().StringVar(&o.from, "from", "", "write the rayctl.yaml of this batch script, RayJob or ray job submit line: `FILE`, - for standard input")
	c.Flags().StringVar(&o.dir, "dir", ".", "write into this `DIR`")
	c.Flags().BoolVar(&o.force, "force", false, "overwrite files that are there")
	return c
}

func templateNames() []string {
	var names []string
	for _, w := range workloads.List() {
		names = append(names, w.Name)
	}
	return names
}

// otherTemplates are what people call templates.
var otherTemplates = map[string]string{"rl": "grpo", "rlhf": "grpo", "training": "train", "trainer": "train", "serving": "serve"}

// runInit writes the files of one template, all or none, except for programs that are there already.
func runInit(_ context.Context, a *app.App, o *initOptions) error {
	switch template, err := app.CITemplate(o.template); {
	case err != nil:
		return err
	case template != "":
		o.template = template
	}
	if other := otherTemplates[o.template]; other != "" && !slices.Contains(templateNames(), o.template) {
		o.template = other
	}
	if !slices.Contains(templateNames(), o.template) {
		return app.UsageError("there are "+strings.Join(templateNames(), ", "), "there is no template %q", o.template)
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return launcher.Fail(runstate.CodeUsage, err, "change to a directory that exists", "the current directory is not known: %v", err)
	}
	files, err := workloads.Files(o.template, spec.NameFrom(filepath.Base(dir))) // as for a file without a name; one is for all directories of a user
	if err != nil {
		return err
	}
	var kept []string
	for _, f := range files {
		switch err := o.taken(f.Name); {
		case errors.Is(err, fs.ErrExist) && !isConfig(f.Name):
			kept = append(kept, f.Name)
		case err != nil:
			return err
		}
	}
	for _, f := range files {
		if slices.Contains(kept, f.Name) {
			a.UI.Note("%s exists already and is not changed", filepath.Join(o.dir, f.Name))
			continue
		}
		if err := o.write(a, f.Name, f.Content); err != nil {
			return err
		}
	}
	if o.template == "github" || o.template == "gitlab" {
		if _, err := os.Stat(filepath.Join(o.dir, "rayctl.yaml")); err != nil {
			a.UI.Note("the job is that of rayctl.yaml, which is not there yet: `rayctl init` writes one, or set the command in the file")
		}
		a.Next("commit the file and push")
		return nil
	}
	next := []string{"`" + o.below(nextOf(o.template)) + "`"}
	if o.template == "serve" {
		next = append(next, "on a cluster that runs already, `rayctl serve apply -f "+shellescape.Quote(filepath.Join(o.dir, "serve.yaml"))+" NAME`")
	}
	a.Next(next...)
	return nil
}

// taken is why a file is not written: it is there.
func (o *initOptions) taken(name string) error {
	path := filepath.Join(o.dir, name)
	switch _, err := os.Lstat(path); {
	case err == nil && !o.force:
		return launcher.Fail(runstate.CodeUsage, fs.ErrExist, "give --force, or another --dir", "%s already exists", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// write writes a file, and prints its path.
func (o *initOptions) write(a *app.App, name string, content []byte) error {
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := wholefile.Write(path, content, 0o644); err != nil {
		return err
	}
	fmt.Fprintln(a.Out, path)
	return nil
}

// below is a command for the directory with the files, to be typed in the current one.
func (o *initOptions) below(command string) string {
	if dir := filepath.Clean(o.dir); dir != "." {
		return "cd " + shellescape.Quote(dir) + " && " + command
	}
	return command
}

// isConfig reports whether a file of a template is configuration. An existing program is kept, because it is the one that the user wants to run.
func isConfig(name string) bool {
	return filepath.Ext(name) == ".yaml" || filepath.Ext(name) == ".yml"
}

// nextOf is the command that runs a template's files.
func nextOf(template string) string {
	if template == "serve" {
		return "rayctl up && rayctl serve apply -f serve.yaml"
	}
	return "rayctl run"
}
