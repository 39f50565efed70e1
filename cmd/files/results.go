package files

import (
	"context"
	"path"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// source is what to copy from a cluster: a path, or without one the run's output directory. Of an ended cluster n reads what it left.
func (n *nodeShell) source(ctx context.Context, c *app.Cluster, given string) (string, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	if given == "" {
		if given, err = outputDir(s); err != nil {
			return "", err
		}
		given += "/." // what is in it, as the user has not named it: the same copy again is the same, and not a directory in the first one
	}
	if !s.Phase.Ended() {
		return given, nil
	}
	host, err := app.Ability[launcher.HostExecer](c.Launcher, "copying what an ended cluster left")
	switch {
	case err != nil:
		return "", err
	case n.node != "":
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "", "cluster %s has ended, and its nodes with it: leave --node out for what it left", c.ID)
	case !path.IsAbs(given):
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "`rayctl cp "+string(c.ID)+": DST` copies its output directory, an absolute path a file",
			"cluster %s has ended, and %q could be below any directory", c.ID, given)
	}
	n.e = onHost{host}
	return given, nil
}

// outputDir is where a run's driver leaves results.
func outputDir(s launcher.Status) (string, error) {
	switch {
	case s.Job == nil:
		return "", app.UsageError("write NAME:PATH", "cluster %s has no job of its own and so no output directory", s.Name)
	case s.Job.OutputDir == "" && s.Phase.Ended():
		return "", launcher.Fail(runstate.CodeSpec, nil, "drivers write results to $RAYCTL_OUTPUT_DIR", "run %s left nothing in an output directory", s.Name)
	case s.Job.OutputDir == "":
		return "", app.UsageError("write NAME:PATH", "run %s has no output directory", s.Name)
	case !path.IsAbs(s.Job.OutputDir):
		return "", launcher.Fail(runstate.CodeSpec, nil, "copy it with that storage's own tool", "the output directory of %s is not a directory: %s", s.Name, s.Job.OutputDir)
	}
	return s.Job.OutputDir, nil
}

// onHost runs the commands that copy on the host of a substrate instead of a node.
type onHost struct{ launcher.HostExecer }

// Exec is ExecOnHost.
func (h onHost) Exec(ctx context.Context, _ launcher.ID, e launcher.ExecRequest) (int, error) {
	return h.ExecOnHost(ctx, e)
}
