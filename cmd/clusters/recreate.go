package clusters

import (
	"context"
	"errors"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// replace ends and forgets the cluster of the spec's name. Before that it checks what it can: it packs the packages, once, and asks the launcher to
// validate the launch.
func replace(ctx context.Context, a *app.App, l launcher.Launcher, s *spec.ClusterSpec, p *launcher.Payload) error {
	if _, err := l.Render(s); err != nil {
		return err
	}
	if v, ok := l.(launcher.Validator); ok {
		if err := v.Validate(ctx, s, *p); err != nil {
			return err
		}
	}
	if p.Packages != nil {
		made, err := p.Packages(ctx)
		if err != nil {
			return err
		}
		p.Packages = func(context.Context) (*launcher.Packages, error) { return made, nil }
	}
	id := launcher.ID(s.Name)
	if err := l.Terminate(ctx, id, launcher.End{Cause: "down", Message: "replaced by --recreate"}); err != nil {
		return err
	}
	return forget(ctx, l, id)
}

// forget frees the name of an ended cluster.
func forget(ctx context.Context, l launcher.Launcher, id launcher.ID) error {
	f, err := app.Ability[launcher.Forgetter](l, "replacing an ended cluster")
	if err != nil {
		return err
	}
	if err := f.Forget(ctx, id); err != nil && !errors.Is(err, launcher.ErrNotFound) {
		return err
	}
	return nil
}
