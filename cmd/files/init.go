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
	"syscall"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/templates/workloads"
)

type initOptions struct {
	template     string // "": not said
	dir          string
	force        bool
	from         string
	set          []string
	launcher     string
	list, params bool
	yes          bool // ask nothing
	output       app.Output
}

// versionParameter is that of a template whose files install rayctl.
const versionParameter = "rayctlVersion"

// NewInit is `rayctl init`.
func NewInit(a *app.App) *cobra.Command {
	o := &initOptions{}
	c := &cobra.Command{
		Use:   "init [TEMPLATE | DIR | --from FILE]",
		Short: "Write a commented rayctl.yaml and a small script to begin with",
		Long: "init writes a cluster file and the program or the scripts that it runs, or what a CI system needs to run them. Clusters are named after the directory.\n" +
			"A path, such as ./mine, is a directory with a team's own templates (`rayctl help templates`). On a terminal init asks for the template, if none is named, and\n" +
			"for its parameters, unless --set gives some. It asks nothing with -y, in CI and without a terminal: the template is basic then, and parameters have their defaults.\n\n" + templateHelp() +
			"\n--params shows what --set can change in a template.\n\n" +
			"--from FILE writes the rayctl.yaml of what starts Ray by hand today: a batch script (#SBATCH lines, srun, `ray start` or `ray symmetric-run`), a RayJob or\n" +
			"RayCluster of KubeRay, or a file with a `ray job submit` line; - is standard input. The script is read, not run. What is not translated, and what is to be\n" +
			"checked, stands in the file's first lines and on stderr. Values of secrets are not copied.",
		Example: "  rayctl init && rayctl run\n  rayctl init grpo --dir my-run\n  rayctl init train --set nodes=4 --launcher slurm\n  rayctl init train --params\n  rayctl init github\n  rayctl init ./our-templates/verl\n" +
			"  rayctl init --from train.sbatch\n  rayctl init --from rayjob.yaml",
		Args:              app.NoDash(1, "one template"),
		ValidArgsFunction: completeTemplates,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.template = args[0]
		}
		switch {
		case c.Flags().Changed("from") && (o.template != "" || o.list || o.params || len(o.set) > 0 || o.launcher != ""):
			return app.UsageError("leave one of them out", "a template and --from exclude one another")
		case c.Flags().Changed("from"):
			return a.Action(func(context.Context) error { return runInitFrom(a, o) })(c, args)
		}
		return runInit(a, o) // without a context of its own: Ctrl-C ends it, also at a question
	}
	c.Flags().StringVar(&o.template, "template", "", "the same as the argument `TEMPLATE`")
	c.Flags().Lookup("template").Hidden = true
	c.Flags().StringVar(&o.from, "from", "", "write the rayctl.yaml of this batch script, RayJob or ray job submit line: `FILE`, - for standard input")
	c.Flags().StringVar(&o.dir, "dir", ".", "write into this `DIR`")
	c.Flags().BoolVar(&o.force, "force", false, "overwrite files that are there")
	c.Flags().StringArrayVar(&o.set, "set", nil, "set a parameter of the template: `KEY=VALUE`, as in nodes=4")
	c.Flags().StringVar(&o.launcher, "launcher", "", "write the files for this `LAUNCHER`")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "ask nothing: take the defaults")
	c.Flags().BoolVar(&o.list, "list", false, "list the templates")
	c.Flags().BoolVar(&o.params, "params", false, "show the parameters of the template")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	app.Complete(c, "set", completeSet)
	app.Complete(c, "launcher", completeLauncher)
	return c
}

// runInit writes the files of one template, or shows what there is.
func runInit(a *app.App, o *initOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if !o.output.Text() && !o.list && !o.params {
		return app.UsageError("give --list or --params with it", "-o is for --list and --params")
	}
	found, err := o.find()
	if err != nil {
		return err
	}
	defer found.close()
	switch {
	case o.list:
		return o.printList(a, found.all)
	case o.asks(a, found):
		return o.ask(a, found)
	}
	t, err := found.only()
	switch {
	case err != nil:
		return err
	case o.params:
		return o.printParameters(a, t)
	}
	return o.make(a, t, o.given())
}

// given are the parameters of the command line.
func (o *initOptions) given() []string {
	if o.launcher == "" {
		return o.set
	}
	return append(slices.Clone(o.set), "launcher="+o.launcher)
}

// asks reports whether there is a person to ask, who has not said already what they want.
func (o *initOptions) asks(a *app.App, f *found) bool {
	person := a.InTTY && a.OutTTY && a.ErrTTY && a.Getenv("CI") != "true"
	return person && !o.yes && !o.params && (f.one == nil || len(o.set) == 0)
}

// make writes the files of a template with these parameters, and says what to do next.
func (o *initOptions) make(a *app.App, t *workloads.Template, set []string) error {
	project, err := o.project()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(t.Parameters, func(p workloads.Parameter) bool { return p.Name == versionParameter }) {
		set = pinned(a, set)
	}
	values, err := t.Values(set, project)
	if err == nil {
		err = t.CheckValues(values)
	}
	if err != nil {
		return refused(err)
	}
	files, err := t.Files(values)
	if err != nil {
		return refused(err)
	}
	if err := o.writeAll(a, t, files); err != nil {
		return err
	}
	for _, name := range t.Uses {
		if _, err := os.Stat(filepath.Join(o.dir, name)); err != nil {
			a.UI.Note("the files need %s, which is not there yet: `rayctl init` writes one, or set the command in the file", name)
		}
	}
	if steps := o.steps(t); len(steps) > 0 {
		a.Next(steps...)
	}
	return nil
}

// pinned adds this build's version, unless the user sets another.
func pinned(a *app.App, set []string) []string {
	switch {
	case sets(set, versionParameter):
	case a.Source == "":
		a.UI.Note("this rayctl was not built from a release, so the file uses the branch main, which changes: give `--set %s=TAG` with a tag or a commit", versionParameter)
	default:
		return slices.Insert(slices.Clone(set), 0, versionParameter+"="+a.Source)
	}
	return set
}

// project is the default of the clusters' name: that of a file without one in this directory.
func (o *initOptions) project() (string, error) {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return "", launcher.Fail(runstate.CodeUsage, err, "change to a directory that exists", "the current directory is not known: %v", err)
	}
	return spec.NameFrom(filepath.Base(dir)), nil
}

// refused gives the errors of templates the exit codes of wrong usage and of a wrong file.
func refused(err error) error {
	var value *workloads.ValueError
	var file *workloads.Error
	switch {
	case errors.As(err, &value):
		return app.UsageError(value.Hint, "%s", value.Msg)
	case errors.As(err, &file):
		return launcher.Fail(runstate.CodeSpec, nil, file.Hint, "%s: %s", file.File, file.Msg)
	}
	return err
}

// writeAll writes all files or none, except for programs that are there already.
func (o *initOptions) writeAll(a *app.App, t *workloads.Template, files []workloads.File) error {
	var kept []string
	for _, f := range files {
		switch err := o.taken(f.Name); {
		case errors.Is(err, fs.ErrExist) && slices.Contains(t.Keeps, f.Name):
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
	return nil
}

// steps are what to do next, with commands to be typed in the current directory.
func (o *initOptions) steps(t *workloads.Template) (out []string) {
	for _, s := range t.Next {
		switch {
		case s.Run == "":
			out = append(out, s.Say)
		case s.Say == "":
			out = append(out, "`"+o.below(s.Run)+"`")
		default:
			out = append(out, s.Say+", `"+o.below(s.Run)+"`")
		}
	}
	return out
}

// taken is why a file is not written: it is there, or a link leads to another directory.
func (o *initOptions) taken(name string) error {
	root, err := os.OpenRoot(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	path := filepath.Join(o.dir, name)
	switch _, err := root.Lstat(name); {
	case err == nil && !o.force:
		return launcher.Fail(runstate.CodeUsage, fs.ErrExist, "give --force, or another --dir", "%s already exists", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return launcher.Fail(runstate.CodeUsage, nil, "give another --dir", "%s cannot be written: %v", path, cause(err))
	}
	return nil
}

// cause is the error below that of a call. What is not the system's is os.Root's, which refuses links.
func cause(err error) error {
	var system syscall.Errno
	if errors.As(err, &system) {
		return system
	}
	return errors.New("a link in its path leads to another directory")
}

// write writes a file, and prints its path.
func (o *initOptions) write(a *app.App, name string, content []byte) error {
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := sharedfile.Write(path, content, 0o644); err != nil {
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

// isPath reports whether the argument is a directory of a team's templates and not the name of one of rayctl's.
func isPath(name string) bool {
	return strings.HasPrefix(name, ".") || strings.ContainsRune(name, filepath.Separator) || workloads.IsAddress(name)
}
