package cmd

import (
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/access"
	"github.com/rayctl/rayctl/cmd/advise"
	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/clusters"
	"github.com/rayctl/rayctl/cmd/files"
	"github.com/rayctl/rayctl/cmd/jobs"
	"github.com/rayctl/rayctl/cmd/serve"
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
func NewRoot(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "rayctl",
		Short: "Run Ray clusters and jobs on this machine, Slurm or Kubernetes (KubeRay)",
		Long: "rayctl starts a Ray cluster on this machine, on Slurm or on Kubernetes with KubeRay, runs a job on it,\n" +
			"follows its output, exits with its exit code, and leaves nothing behind.\n" +
			"`rayctl help SUBJECT` explains: " + subjects + ".",
		Example: "  rayctl run -- python train.py         # the whole life of one job\n" +
			"  rayctl up && rayctl submit -- python a.py && rayctl down",
		Version: thisBuild().String(), // people try --version first; same text as the command
		Args:    app.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cobra.EnableCommandSorting = false // the help lists them in the order of the work
	a.Prepare(root)
	root.SetVersionTemplate("{{.Version}}\n")
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
	add(groupRun, clusters.NewRun(a))
	add(groupClusters, clusters.NewUp(a), clusters.NewDown(a), clusters.NewLs(a), clusters.NewStatus(a), clusters.NewWait(a), clusters.NewEvents(a), clusters.NewExtend(a), clusters.NewScale(a), clusters.NewGC(a))
	add(groupJobs, jobs.NewSubmit(a), jobs.NewJobs(a), jobs.NewLogs(a), jobs.NewStop(a))
	add(groupServe, serve.New(a))
	add(groupWork, access.NewDashboard(a), access.NewTop(a), access.NewEnv(a), access.NewExec(a), access.NewPortForward(a), files.NewCp(a))
	add(groupBefore, advise.New(a), files.NewInit(a), files.NewRender(a), files.NewValidate(a), files.NewSchema(a), clusters.NewDoctor(a))
	add(groupOther, clusters.NewHistory(a), clusters.NewDebugDump(a, thisBuild().String()), newVersion(a))
	root.AddCommand(access.NewTunnel(a))
	addOtherVerbs(root)
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	addCompletion(root)
	addHelp(a, root)
	addKeyCompletion(root)
	return root
}
