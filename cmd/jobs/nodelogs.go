package jobs

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// nodeLogs lists Ray's log files of a node, or shows one of them.
func nodeLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Connection) error {
	if o.file != "" && !filepath.IsLocal(o.file) {
		return app.UsageError("`rayctl logs --node "+o.node+"` lists them", "--file: %q is not below the node's directory of logs", o.file)
	}
	node, err := findNode(ctx, c, o.node)
	if err != nil {
		return err
	}
	opts := dashboardclient.LogOptions{Tail: o.tail}
	switch {
	case o.file == "":
		return listNodeLogs(ctx, a, c, node.ID)
	case o.follow:
		return a.FollowLogs(ctx, c, opts, func(ctx context.Context, opts dashboardclient.LogOptions) error {
			return c.FollowNodeLog(ctx, node.ID, o.file, o.out, opts)
		})
	}
	return c.NodeLog(ctx, node.ID, o.file, o.out, opts)
}

func listNodeLogs(ctx context.Context, a *app.App, c *app.Connection, node string) error {
	files, err := c.NodeLogs(ctx, node, "")
	if err != nil {
		return err
	}
	for _, f := range slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(files))...))) {
		fmt.Fprintln(a.Out, terminal.OneLine(f))
	}
	return nil
}

// findNode finds a node by its name or by the beginning of its id.
func findNode(ctx context.Context, c *app.Connection, name string) (*dashboardclient.Node, error) {
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
