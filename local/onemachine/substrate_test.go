package onemachine

import (
	"context"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/local/localspec"
)

// localSubstrate is the substrate of package local, which imports this one.
type localSubstrate struct{}

func (localSubstrate) Name() string                           { return localspec.Name }
func (localSubstrate) StateSubdir() string                    { return "" }
func (localSubstrate) Require(context.Context) error          { return nil }
func (localSubstrate) Start(string) keeper.Start              { return keeper.Start{Mode: keeper.StartSpawn} }
func (localSubstrate) Check(context.Context) []launcher.Check { return nil }
