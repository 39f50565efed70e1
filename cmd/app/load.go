package app

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// ConfigFlags are the flags that select the configuration in force.
type ConfigFlags struct{ Flags *pflag.FlagSet }

// AddSelection adds the flags of every command on clusters.
func (o *ConfigFlags) AddSelection(c *cobra.Command) {
	o.Flags = c.Flags()
	config.AddSelection(o.Flags)
	completeLauncher(c)
}

// AddSpec adds the flags of commands that make clusters.
func (o *ConfigFlags) AddSpec(c *cobra.Command) {
	o.Flags = c.Flags()
	config.AddSpec(o.Flags)
	completeLauncher(c)
}

// AddUp adds the flags of a command that makes a cluster without a job.
func (o *ConfigFlags) AddUp(c *cobra.Command) {
	o.Flags = c.Flags()
	config.AddUp(o.Flags)
	completeLauncher(c)
}

func completeLauncher(c *cobra.Command) {
	Complete(c, "launcher", cobra.FixedCompletions(config.Launchers(), cobra.ShellCompDirectiveNoFileComp))
}

// ExactName is the value of --name, or "".
func (o *ConfigFlags) ExactName() string {
	if f := o.Flags.Lookup("name"); f != nil {
		return f.Value.String()
	}
	return ""
}

// Load reads the configuration in force.
func (a *App) Load(o *ConfigFlags, opts config.Options) (*config.Loaded, error) {
	opts.Flags, opts.Stdin = o.Flags, a.In
	c, err := config.Load(opts)
	if err != nil {
		return nil, err
	}
	a.nameFiles(c)
	for _, w := range c.Warnings {
		a.UI.Note("%s", w)
	}
	return c, nil
}

// nameFiles prints the files in force as a command's first line, because they decide what runs, and one may be found far above.
func (a *App) nameFiles(c *config.Loaded) {
	if len(c.Files) > 0 && !a.filesNamed {
		a.UI.Note("using %s", strings.Join(c.Files, " and "))
	}
	a.filesNamed = true
}

// Selection reads the configuration for a command on existing clusters.
func (a *App) Selection(o *ConfigFlags) (*config.Loaded, error) {
	return a.Load(o, config.Options{SkipValidation: true})
}

// NoteUnused notes what the file sets, in sections of other launchers and elsewhere, and the launcher ignores, or cannot give as it is.
func (a *App) NoteUnused(s *spec.ClusterSpec, l launcher.Launcher) {
	for _, text := range l.Notes(s) {
		a.UI.Note("%s", text)
	}
	if ignored := spec.SubstrateOf(s.Launcher).Ignored; ignored != nil {
		for _, text := range ignored(s) {
			a.UI.Note("%s", text)
		}
	}
	for _, other := range spec.Substrates() {
		if other.Name == s.Launcher || other.Unused == nil {
			continue
		}
		if text := other.Unused(s, spec.SubstrateOf(s.Launcher)); text != "" {
			a.UI.Note("%s", text)
		}
	}
}

// Launcher makes the launcher chosen by the configuration.
func (a *App) Launcher(c *config.Loaded) (launcher.Launcher, error) {
	return a.launcherNamed(c.Spec.Launcher, c.Spec)
}

func (a *App) launcherNamed(name string, s *spec.ClusterSpec) (launcher.Launcher, error) {
	construct, ok := a.Launchers[name]
	if !ok {
		hint := "choose another with --launcher"
		if meant := spec.LauncherMeant(name); meant != "" && meant != name {
			hint = "did you mean " + meant + "?"
		}
		return nil, UsageError(hint, "this rayctl has no %s launcher", name)
	}
	return construct(s, a.Logger())
}
