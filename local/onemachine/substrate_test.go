package onemachine

import (
	"context"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/local/localspec"
)

// plain is the substrate of package local, which imports this one.
type plain struct{}

func (plain) Name() string                           { return localspec.Name }
func (plain) StateSubdir() string                    { return "" }
func (plain) Require(context.Context) error          { return nil }
func (plain) Start(string) keeper.Start              { return keeper.Start{Mode: keeper.StartSpawn} }
func (plain) Check(context.Context) []launcher.Check { return nil }
