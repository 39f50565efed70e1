package serve

import (
	"context"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/sizes"
)

// checkSizes refuses a config that breaks a rule of the template in the cluster file in force, by the sizes that the cluster has.
func checkSizes(ctx context.Context, a *app.App, c *app.Connection, file string, config map[string]any) error {
	cluster := c.Cluster()
	if cluster == nil || !sizes.HasTemplate(&cluster.Spec.Job) {
		return nil
	}
	accepted, err := cluster.Launcher.Accepted(ctx, cluster.ID)
	if err != nil {
		a.Logger().Debug("the cluster's file is not known: sizes are not compared", "error", err)
		return nil
	}
	return app.CheckServed(&cluster.Spec.Job, accepted, file, config)
}
