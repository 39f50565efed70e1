package clusters

import (
	"context"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// resized is a launcher that changes sizes itself. Of an elastic group 3 nodes are there.
type resized struct{ launcher.Launcher }

func (resized) Resize(context.Context, launcher.ID, *spec.ClusterSpec, *spec.ClusterSpec, bool) error {
	return nil
}

func (resized) Scale(_ context.Context, _ launcher.ID, sizes []keeper.Scale) ([]runstate.Group, error) {
	return []runstate.Group{{Name: "head", Wanted: 1}, {Name: sizes[0].Group, Wanted: 3, Min: sizes[0].Min, Max: 6}}, nil
}

// TestScaleLines: scale prints what follows for the existing nodes.
func TestScaleLines(t *testing.T) {
	apptest.Run(t, verbs, func() launcher.Launcher { return resized{new(apptest.Launcher).With("dev")} }, []apptest.Line{
		{Args: "scale dev worker=1", Out: "worker: 3 nodes, at least 1 and at most 6\n", Err: "worker: 2 nodes above the minimum: a node is removed when nothing has used it for scaling.idle of the cluster's file (5m where the file does not set it)"},
		{Args: "scale dev worker=2", Out: "worker: 3 nodes", Err: "worker: 1 node above the minimum"},
		{Args: "scale dev worker=3", Out: "worker: 3 nodes, at least 3 and at most 6\n", Err: "local cluster dev\n"},
		{Args: "scale dev worker 1", Out: "worker: 3 nodes, at least 1 and at most 6\n", Err: "local cluster dev\n"},
		{Args: "scale worker 3", Out: "worker: 3 nodes, at least 3 and at most 6\n", Err: "local cluster dev"},
		{Args: "scale worker 1:4", Out: "worker: 3 nodes, at least 1 and at most 6\n", Err: "local cluster dev"},
		{Args: "scale dev 3", Code: runstate.CodeSpec, Err: "dev has no elastic group, so its size cannot change: a group is elastic if it was launched with a range"},
		{Args: "scale dev worker 1 worker=2", Code: runstate.CodeUsage, Err: "group worker is given twice"},
		{Args: "scale dev worker", Code: runstate.CodeUsage, Err: "\"worker\" is not a group and its size: write it like worker=4"},
	})
}
