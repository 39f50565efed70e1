package cmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// configOptions are the flags that select the configuration in force.
type configOptions struct{ flags *pflag.FlagSet }

// addSelection adds the flags of every command on clusters.
func (o *configOptions) addSelection(c *cobra.Command) {
	o.flags = c.Flags()
	config.AddSelection(o.flags)
	completeLauncher(c)
}

// addSpec adds the flags of commands that make clusters.
func (o *configOptions) addSpec(c *cobra.Command) {
	o.flags = c.Flags()
	config.AddSpec(o.flags)
	completeLauncher(c)
}

func completeLauncher(c *cobra.Command) {
	complete(c, "launcher", cobra.FixedCompletions([]string{spec.LauncherLocal, spec.LauncherSlurm, spec.LauncherKubeRay}, cobra.ShellCompDirectiveNoFileComp))
}

// exactName is the value of --name, or "".
func (o *configOptions) exactName() string {
	if f := o.flags.Lookup("name"); f != nil {
		return f.Value.String()
	}
	return ""
}

// load reads the configuration in force.
func (a *App) load(o *configOptions, opts config.Options) (*config.Loaded, error) {
	opts.Flags, opts.Stdin = o.flags, a.In
	c, err := config.Load(opts)
	if err != nil {
		return nil, err
	}
	a.nameFiles(c)
	for _, w := range c.Warnings {
		a.ui.note("%s", w)
	}
	return c, nil
}

// nameFiles prints the files in force as a command's first line, because they decide what runs, and one may be found far above.
func (a *App) nameFiles(c *config.Loaded) {
	if len(c.Files) > 0 && !a.filesNamed {
		a.ui.note("using %s", strings.Join(c.Files, " and "))
	}
	a.filesNamed = true
}

// selection reads the configuration for a command on existing clusters.
func (a *App) selection(o *configOptions) (*config.Loaded, error) {
	return a.load(o, config.Options{SkipValidation: true})
}

// notePackages notes that this launcher does not install local.packages.
func (a *App) notePackages(s *spec.ClusterSpec) {
	if s.Local == nil || len(s.Local.Packages) == 0 || s.Launcher == spec.LauncherLocal {
		return
	}
	where := map[string]string{spec.LauncherKubeRay: "the image", spec.LauncherSlurm: "the nodes' Python"}[s.Launcher]
	a.ui.note("local.packages (%s) are not installed by the %s launcher: %s must have them, or give them in job.runtimeEnv (pip)",
		strings.Join(s.Local.Packages, ", "), s.Launcher, where)
}

// launcher makes the launcher chosen by the configuration.
func (a *App) launcher(c *config.Loaded) (launcher.Launcher, error) {
	return a.launcherNamed(c.Spec.Launcher, c.Spec)
}

func (a *App) launcherNamed(name string, s *spec.ClusterSpec) (launcher.Launcher, error) {
	construct, ok := a.Launchers[name]
	if !ok {
		return nil, usageError("choose another with --launcher", "this rayctl has no %s launcher", name)
	}
	return construct(s, a.logger())
}
