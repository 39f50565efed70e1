package files

import (
	"context"
	"path"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// source is what to copy from a cluster: a path, or without one the run's output directory. Of an ended cluster n reads what it left, and a relative path
// is below the output directory, as no other directory of the driver is kept. Of a living one it is there if the output directory has it, so that the same
// command gets the same file before and after the end.
func (n *nodeShell) source(ctx context.Context, c *app.Cluster, given string) (string, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	if s.Phase.Ended() {
		if err := n.onHostOf(c); err != nil {
			return "", err
		}
	}
	switch {
	case given == "":
		return n.wholeOutput(ctx, s)
	case path.IsAbs(given):
		return given, nil
	case !s.Phase.Ended() && (s.Job == nil || !path.IsAbs(s.Job.OutputDir)):
		return given, nil
	case !s.Phase.Ended():
		return n.inOutput(ctx, s.Job.OutputDir, given)
	}
	return n.ofEnded(ctx, s, given)
}

// ofEnded is a relative path of an ended run: in its output directory, or in the directory in which the driver began, which is often one of this machine.
func (n *nodeShell) ofEnded(ctx context.Context, s launcher.Status, given string) (string, error) {
	output, began := "", ""
	if s.Job != nil {
		output, began = s.Job.OutputDir, driverio.Directory(s.Job.Entrypoint)
	}
	if !path.IsAbs(output) {
		output = ""
	}
	for _, dir := range []string{output, began} {
		if dir == "" {
			continue
		}
		if found, err := n.inOutput(ctx, dir, given); err != nil || found != given {
			return found, err
		}
	}
	const hint = "give an absolute path; what a driver writes to $RAYCTL_OUTPUT_DIR is found by its name after the end"
	switch {
	case output == "" && began == "":
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, hint, "cluster %s has ended without an output directory, in which %q could be", s.Name, given)
	case output == "":
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, hint, "there is no %q in %s, in which the driver of %s ran", given, began, s.Name)
	case began == "":
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, hint, "there is no %q in the output directory of %s, %s", given, s.Name, output)
	default:
		return "", launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, hint, "there is no %q in the output directory of %s, %s, nor in %s, in which the driver ran", given, s.Name, output, began)
	}
}

// outputOf is where an upload without a path goes: the output directory, as scp takes the home directory.
func (n *nodeShell) outputOf(ctx context.Context, c *app.Cluster) (string, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	if s.Job == nil || !path.IsAbs(s.Job.OutputDir) {
		return "", app.UsageError("write NAME:PATH, like dev:/tmp/x", "the path on the cluster is empty, and %s has no output directory", s.Name)
	}
	return s.Job.OutputDir, nil
}

// inOutput is the path in the output directory, if it is there, else as it was given: a command on the node begins in another directory.
func (n *nodeShell) inOutput(ctx context.Context, output, given string) (string, error) {
	below, found := path.Join(output, given), strings.Builder{}
	if strings.HasSuffix(given, "/") {
		below += "/"
	}
	err := n.run(ctx, nil, &found, "sh", "-c", `if [ -e "$1" ] || [ -L "$1" ]; then echo found; fi`, "sh", below)
	if err != nil || found.Len() == 0 {
		return given, err
	}
	return below, nil
}

// onHostOf makes n read the files that an ended cluster left.
func (n *nodeShell) onHostOf(c *app.Cluster) error {
	host, err := app.Ability[launcher.HostExecer](c.Launcher, "copying what an ended cluster left")
	ender, ends := c.Launcher.(launcher.FilesEnder)
	switch {
	case err != nil && ends:
		return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, ender.StoredFiles(c.ID), "cluster %s has ended, and the files of its pods with it, except for what is on mounted storage", c.ID)
	case err != nil:
		return err
	case n.node != "":
		return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "", "cluster %s has ended, and its nodes with it: leave --node out for what it left", c.ID)
	}
	n.e = onHost{host}
	return nil
}

// wholeOutput is what is in the output directory, not the directory: the user has not named it, and the same copy again is the same, and not a directory
// in the first one.
func (n *nodeShell) wholeOutput(ctx context.Context, s launcher.Status) (string, error) {
	dir, err := outputDir(s)
	if err != nil {
		return "", err
	}
	var entries strings.Builder
	if err := n.run(ctx, nil, &entries, "ls", "-A", "--", dir); err == nil && entries.Len() == 0 { // the copy reports a directory that cannot be read
		return "", launcher.Fail(runstate.CodeSpec, nil, "drivers write results to $RAYCTL_OUTPUT_DIR", "the output directory of run %s is empty: %s", s.Name, dir)
	}
	return dir + "/.", nil
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
