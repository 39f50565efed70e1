package onemachine

import (
	"context"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Accepted is the file in the record.
func (l *Launcher) Accepted(_ context.Context, id launcher.ID) (*spec.ClusterSpec, error) {
	c, err := l.open(id)
	if err != nil {
		return nil, err
	}
	switch how, _, err := c.run.Life(); {
	case err != nil:
		return nil, err
	case how == elsewhere:
		return nil, c.notHere()
	case how == ended, how == orphaned:
		return nil, c.refuseKept()
	}
	return c.run.Record.Spec, nil
}

// Accept replaces the file in the record.
func (l *Launcher) Accept(ctx context.Context, id launcher.ID, s *spec.ClusterSpec) error {
	lock, err := l.lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer lock.Release()
	c, err := l.open(id)
	if err != nil {
		return err
	}
	return c.run.Accept(s)
}

// Extended has nothing to do: only the keeper has limits.
func (l *Launcher) Extended(context.Context, launcher.ID, runstate.Deadlines) error { return nil }
