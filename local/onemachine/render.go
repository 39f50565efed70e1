package onemachine

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"al.essio.dev/pkg/shellescape"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/rayenv"
)

// Render returns the keeper's orders and the command that starts it. The orders have what each node is given.
func (l *Launcher) Render(s *spec.ClusterSpec) ([]launcher.File, error) {
	s = spec.For(s, l.Name())
	root, err := tempRoot(s)
	if err != nil {
		return nil, err
	}
	c := l.cluster(s.Name)
	env := rayenv.Planned(l.environment(s, nil))
	plan := nodePlan{Spec: s, Env: env, Machine: thisMachine(), Launcher: l.Name(), Start: l.on.Start(s.Name), OutputDir: c.run.Path(outputName), TempRoot: root}
	if err := plan.CheckReservation(); err != nil {
		return nil, err
	}
	orders, err := json.MarshalIndent(plan.Orders(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the orders: %w", err)
	}
	program := filepath.Join(l.scripts, keeperzip.Directory(), keeperzip.File)
	line := shellescape.QuoteCommand(keeperCommand(env.Python, program, c.run.Dir))
	return []launcher.File{
		{Name: keeper.OrdersFile, Content: append(orders, '\n')},
		{Name: "keeper.sh", Content: []byte("#!/bin/sh\n# Run detached, with a pipe to the client as standard input.\n" + line + "\n")},
	}, nil
}

// RenderNetwork returns none: this machine has no rules for its own connections.
func (l *Launcher) RenderNetwork(*spec.ClusterSpec) ([]launcher.File, error) { return nil, nil }
