package nodefiles

import (
	"cmp"
	"context"
	"errors"
	"path"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Source is what to copy from a cluster: a path, or without one the run's output directory. Of an ended cluster n reads what it left, and a relative path
// is below the output directory, as no other directory of the driver is kept. Of a living one it is there if the output directory has it, so that the same
// command gets the same file before and after the end.
func (n *Shell) Source(ctx context.Context, c *app.Cluster, given string) (string, error) {
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
	case !s.Phase.Ended() && !path.IsAbs(s.Output()):
		return given, nil
	case !s.Phase.Ended():
		return n.inOutput(ctx, s.Output(), given)
	}
	return n.ofEnded(ctx, s, given)
}

// ErrNothing means that the drivers have left nothing in the output directory.
var ErrNothing = errors.New("nothing is in the output directory")

// Results copies the content of the cluster's output directory to dst, which is made if it is missing. It returns both places.
func (n *Shell) Results(ctx context.Context, c *app.Cluster, dst string) (from, to string, err error) {
	if from, err = n.Source(ctx, c, ""); err != nil {
		return "", "", err
	}
	to, err = n.Download(ctx, from, cmp.Or(strings.TrimRight(dst, "/"), dst))
	return from, to, err
}

// ofEnded is a relative path of an ended run: in its output directory, or in the directory in which the driver began, which is often one of this machine.
func (n *Shell) ofEnded(ctx context.Context, s launcher.Status, given string) (string, error) {
	output, began := s.Output(), ""
	if s.Job != nil {
		began = driverio.Directory(s.Job.Entrypoint)
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

// OutputOf is where an upload without a path goes: the output directory, as scp takes the home directory.
func (n *Shell) OutputOf(ctx context.Context, c *app.Cluster) (string, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	if !path.IsAbs(s.Output()) {
		return "", app.UsageError("write NAME:PATH, like dev:/tmp/x", "the path on the cluster is empty, and %s has no output directory", s.Name)
	}
	return s.Output(), nil
}

// inOutput is the path in the output directory, if it is there, else as it was given: a command on the node begins in another directory.
func (n *Shell) inOutput(ctx context.Context, output, given string) (string, error) {
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
func (n *Shell) onHostOf(c *app.Cluster) error {
	host, able := launcher.As[launcher.HostExecer](c.Launcher)
	stored := c.Launcher.Properties().FilesEnd
	switch {
	case stored != "":
		return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, strings.ReplaceAll(stored, "NAME", string(c.ID)), "cluster %s has ended, and the files of its pods with it, except for what is on mounted storage", c.ID)
	case !able:
		return launcher.Unsupported(c.Launcher, "copying what an ended cluster left", "`rayctl logs "+string(c.ID)+"` has its output")
	case n.node != "":
		return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "leave --node out for what it left", "cluster %s has ended, and its nodes with it", c.ID)
	}
	n.e = onHost{host}
	return nil
}

// wholeOutput is what is in the output directory, not the directory: the user has not named it, and the same copy again is the same, and not a directory
// in the first one.
func (n *Shell) wholeOutput(ctx context.Context, s launcher.Status) (string, error) {
	dir, err := outputDir(s)
	if err != nil {
		return "", err
	}
	var entries strings.Builder
	if err := n.run(ctx, nil, &entries, "ls", "-A", "--", dir); err == nil && entries.Len() == 0 { // the copy reports a directory that cannot be read
		return "", launcher.Fail(runstate.CodeSpec, ErrNothing, "drivers write results to $RAYCTL_OUTPUT_DIR", "the output directory of run %s is empty: %s", s.Name, dir)
	}
	return dir + "/.", nil
}

// outputDir is where a cluster's drivers leave results.
func outputDir(s launcher.Status) (string, error) {
	dir := s.Output()
	switch {
	case dir == "" && s.Job == nil:
		return "", app.UsageError("write NAME:PATH", "cluster %s has nothing in an output directory", s.Name)
	case dir == "" && s.Phase.Ended():
		return "", launcher.Fail(runstate.CodeSpec, ErrNothing, "drivers write results to $RAYCTL_OUTPUT_DIR", "run %s left nothing in an output directory", s.Name)
	case dir == "":
		return "", app.UsageError("write NAME:PATH", "run %s has no output directory", s.Name)
	case !path.IsAbs(dir):
		return "", launcher.Fail(runstate.CodeSpec, nil, "copy it with that storage's own tool", "the output directory of %s is not a directory: %s", s.Name, dir)
	}
	return dir, nil
}

// onHost runs the commands that copy on the host of a substrate instead of a node.
type onHost struct{ launcher.HostExecer }

// Exec is ExecOnHost.
func (h onHost) Exec(ctx context.Context, _ launcher.ID, e launcher.ExecRequest) (int, error) {
	return h.ExecOnHost(ctx, e)
}
