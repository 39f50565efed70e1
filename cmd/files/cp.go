// Package files has the verbs on files: cp, init, render and schema.
package files

import (
	"context"
	"fmt"
	"os"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/nodefiles"
	"github.com/rayctl/rayctl/launcher/spec"
)

type cpOptions struct {
	config   app.ConfigFlags
	node     string
	from, to place
}

// place is a path on this machine or, with remote, on a node of a cluster.
type place struct {
	remote  bool
	cluster string // "": the default one
	path    string
}

// NewCp is `rayctl cp`.
func NewCp(a *app.App) *cobra.Command {
	o := &cpOptions{}
	c := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy a file or directory to or from a node, or a run's results",
		Long: "cp copies between this machine and a node; one side is NAME:PATH, or :PATH for the default cluster. As with cp -r, a directory goes into DST if that\n" +
			"is a directory, else becomes DST. Existing files are replaced only after the whole copy has arrived, and nothing is copied onto itself. The node needs tar.\n" +
			"A link that you name is followed: as SRC, and as DST if it leads to a directory. Links inside a directory stay links, a file replaces a link in its\n" +
			"place, and nothing is written outside of the target.\n" +
			"NAME: without a path means the content of the run's output directory (RAYCTL_OUTPUT_DIR). It is copied into DST, which is created if it is missing;\n" +
			"repeating the copy replaces it. A relative PATH to copy from is below the output directory, if it is there. This also works after the run's end. Then an\n" +
			"absolute PATH can be any other file that the run left on the login node or on this machine. On Kubernetes only mounted storage keeps files after the end.",
		Example: "  rayctl cp grpo-x1f3a: results\n  rayctl cp dev:/tmp/result.json .\n  rayctl cp model/ :/scratch/model --node trainer-1",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return app.UsageError("write it like `rayctl cp dev:/tmp/x .`", "`rayctl cp` takes a source and a destination")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.from, o.to = parsePlace(args[0]), parsePlace(args[1])
			return a.Action(func(ctx context.Context) error { return runCp(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: completePlaces(a),
	}
	o.config.AddSelection(c)
	c.Flags().StringVar(&o.node, "node", "", "name of the `NODE` (default: the head's)")
	a.CompleteNodes(c)
	app.Accept(c.Flags(), "recursive", "r", "directories are copied whole")
	return c
}

// parsePlace treats text with a colon before any slash as a path of a cluster.
func parsePlace(text string) place {
	name, rest, ok := strings.Cut(text, ":")
	if !ok || strings.ContainsAny(name, `/\`) {
		return place{path: text}
	}
	return place{remote: true, cluster: name, path: rest}
}

// runCp copies in one direction.
func runCp(ctx context.Context, a *app.App, o *cpOptions) error {
	if err := o.onePlaceEach(); err != nil {
		return err
	}
	remote := o.from
	if o.to.remote {
		remote = o.to
	}
	c, err := a.Find(ctx, app.FindOptions{Name: remote.cluster, Config: &o.config, Ended: o.from.remote})
	if err != nil {
		return err
	}
	n := nodefiles.New(a.UI, c.Launcher, c.ID, o.node)
	src, target := o.from.path, ""
	if o.to.remote && remote.path == "" {
		if o.to.path, err = n.OutputOf(ctx, c); err != nil {
			return err
		}
	}
	if o.to.remote {
		target, err = n.Upload(ctx, src, o.to.path)
		target = string(c.ID) + ":" + target
	} else if src == "" {
		src, target, err = n.Results(ctx, c, o.to.path)
		src = string(c.ID) + ":" + src
	} else if src, err = n.Source(ctx, c, src); err == nil {
		target, err = n.Download(ctx, src, o.to.path)
		src = string(c.ID) + ":" + src
	}
	if err != nil {
		return err
	}
	a.UI.Note("copied %s to %s", src, target)
	return nil
}

// onePlaceEach checks that one of SRC and DST is on this machine and the other one on a cluster.
func (o *cpOptions) onePlaceEach() error {
	if o.from.remote != o.to.remote {
		return nil
	}
	if dir, _, colon := strings.Cut(o.from.path, ":"); colon && app.IsShared(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return app.UsageError("`cp -r "+shellescape.Quote(dir)+" DST` copies it, and `rayctl logs "+shellescape.Quote(dir)+"` shows the output", "%s is a directory on this machine, with the shared files of a run", dir)
		}
	}
	if _, err := os.Lstat(o.from.path); !o.from.remote && err != nil && spec.CheckName(o.from.path) == nil {
		return app.UsageError(fmt.Sprintf("`rayctl cp %s: DST` copies the output directory of a run, NAME:PATH a file", o.from.path), "there is no file %s here", o.from.path)
	}
	return app.UsageError("write one as NAME:PATH", "exactly one of %q and %q must be a path on a cluster", o.from.path, o.to.path)
}
