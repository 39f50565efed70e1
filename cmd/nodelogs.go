package cmd

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// nodeLogs lists Ray's log files of a node, or shows one of them.
func (a *App) nodeLogs(ctx context.Context, o *logsOptions, c *connection) error {
	if o.file != "" && !filepath.IsLocal(o.file) {
		return usageError("`rayctl logs --node "+o.node+"` lists them", "--file: %q is not below the node's directory of logs", o.file)
	}
	node, err := findNode(ctx, c, o.node)
	if err != nil {
		return err
	}
	opts := dashboardclient.LogOptions{Tail: o.tail}
	switch {
	case o.file == "":
		return a.listNodeLogs(ctx, c, node.ID)
	case o.follow:
		err = c.FollowNodeLog(ctx, node.ID, o.file, a.Out, opts)
		if interrupted(ctx) {
			return exitCode(runstate.CodeInterrupted)
		}
	default:
		err = c.NodeLog(ctx, node.ID, o.file, a.Out, opts)
	}
	return err
}

func (a *App) listNodeLogs(ctx context.Context, c *connection, node string) error {
	files, err := c.NodeLogs(ctx, node, "")
	if err != nil {
		return err
	}
	for _, f := range slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(files))...))) {
		fmt.Fprintln(a.Out, clean(f))
	}
	return nil
}

// findNode finds a node by its name or by the beginning of its id.
func findNode(ctx context.Context, c *connection, name string) (*dashboardclient.Node, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var known []string
	for i := range nodes {
		n := &nodes[i]
		if n.Name == name || n.IP == name || (len(name) >= 6 && strings.HasPrefix(n.ID, name)) {
			return n, nil
		}
		known = append(known, n.Name)
	}
	return nil, launcher.Fail(runstate.CodeSpec, nil, "there are "+strings.Join(known, ", "), "the cluster has no node %q", name)
}
