package slurm

import (
	"context"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

var _ launcher.Changer = (*Launcher)(nil)

// Accepted is the file in the record.
func (l *Launcher) Accepted(ctx context.Context, id launcher.ID) (*spec.ClusterSpec, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if over, err := c.Over(ctx); err != nil {
		return nil, err
	} else if over {
		return nil, c.hasEnded()
	}
	return c.Record.Spec, nil
}

// Accept replaces the file in the record.
func (l *Launcher) Accept(ctx context.Context, id launcher.ID, s *spec.ClusterSpec) error {
	c, err := l.open(ctx, id)
	if err != nil {
		return err
	}
	return c.Accept(ctx, s)
}
