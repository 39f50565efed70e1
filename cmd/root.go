package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Groups of commands in the help.
const (
	groupRun      = "run"
	groupClusters = "clusters"
	groupJobs     = "jobs"
	groupServe    = "serve"
	groupWork     = "work"
	groupBefore   = "before"
	groupOther    = "other"
)

// NewRoot builds the command tree.
func NewRoot(a *App) *cobra.Command {
	root := &cobra.Command{
		Use:   "rayctl",
		Short: "Ray clusters from whatever you have: this machine, Slurm, Kubernetes with KubeRay",
		Long: "rayctl gets a Ray cluster from this machine, a Slurm cluster or a Kubernetes cluster with KubeRay, runs a job on it,\n" +
			"follows its output, exits with its exit code, and leaves nothing behind.",
		Example: "  rayctl run -- python train.py         # the whole life of one job\n" +
			"  rayctl up && rayctl submit -- python a.py && rayctl down",
		SilenceErrors: true, SilenceUsage: true,
		Version: thisBuild().String(), // people try --version first; same text as the command
		Args:    unknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			if err := noEmptyNames(c, args); err != nil {
				return err
			}
			if err := c.ValidateFlagGroups(); err != nil { // cobra checks them after this, when errors no longer count as usage errors
				return err
			}
			a.parsed = true
			return nil
		},
	}
	cobra.EnableCommandSorting = false // the help lists them in the order of the work
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no notes and no progress on stderr")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "show every step on stderr")
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "The whole life of one job:"},
		&cobra.Group{ID: groupClusters, Title: "Clusters:"},
		&cobra.Group{ID: groupJobs, Title: "Jobs on a cluster:"},
		&cobra.Group{ID: groupServe, Title: "Ray Serve:"},
		&cobra.Group{ID: groupWork, Title: "Working on a cluster:"},
		&cobra.Group{ID: groupBefore, Title: "Before you launch:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupRun, newRun(a))
	add(groupClusters, newUp(a), newDown(a), newLs(a), newStatus(a), newExtend(a), newGC(a))
	add(groupJobs, newSubmit(a), newJobs(a), newLogs(a), newStop(a))
	add(groupServe, newServe(a))
	add(groupWork, newDashboard(a), newEnv(a), newExec(a), newPortForward(a), newCp(a))
	add(groupBefore, newInit(a), newRender(a), newSchema(a), newDoctor(a))
	add(groupOther, newHistory(a), newVersion(a))
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	return root
}

// unknownCommand suggests the nearest command.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "`" + c.CommandPath() + " --help` lists the commands"
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean `" + c.CommandPath() + " " + near[0] + "`?"
	}
	return usageError(hint, "there is no command `%s %s`", c.CommandPath(), args[0])
}

// atMost limits the arguments before --; those after it are the user's command.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		own, _ := splitDash(c, args)
		if len(own) > n {
			return usageError("a command to run goes behind --", "`%s` takes %s, and %q is one too many", c.CommandPath(), what, own[n])
		}
		return nil
	}
}

// noDash is atMost for commands that run no command of the user.
func noDash(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError("", "`%s` takes %s, and %q is one too many", c.CommandPath(), what, args[n])
		}
		return nil
	}
}

// noEmptyNames refuses empty names, as `rayctl down "$NAME"` gives if NAME is not set: they would mean the default, such as your only
// cluster.
func noEmptyNames(c *cobra.Command, args []string) error {
	if c.Name() == cobra.ShellCompRequestCmd || c.Name() == cobra.ShellCompNoDescRequestCmd {
		return nil // the argument to complete may be empty
	}
	const hint = "give a value, or leave it out"
	own, _ := splitDash(c, args)
	if i := slices.Index(own, ""); i >= 0 {
		return usageError(hint, "argument %d of `%s` is empty", i+1, c.CommandPath())
	}
	for _, name := range []string{"name", "cluster", "address", "file", "profile", "submission-id", "node"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usageError(hint, "--%s is empty", name)
		}
	}
	return nil
}

// splitDash separates the arguments before -- from those after it.
func splitDash(c *cobra.Command, args []string) (own, command []string) {
	if n := c.ArgsLenAtDash(); n >= 0 {
		return args[:n], args[n:]
	}
	return args, nil
}

// first is the first argument, or "".
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// next prints the useful next commands.
func (a *App) next(commands ...string) {
	a.ui.note("next: %s", strings.Join(commands, "; "))
}

// pair reads KEY=VALUE.
func pair(flag, text string) (key, value string, err error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return "", "", usageError("write it KEY=VALUE", "%s: %q is not a pair", flag, text)
	}
	return key, value, nil
}

func pairs(flag string, texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		k, v, err := pair(flag, text)
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}
