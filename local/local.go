// Package local is the launcher on this machine: see package onemachine, of which it is the substrate without a queue.
package local

import (
	"context"
	"log/slog"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/local/onemachine"
)

// Substrate is this machine as a launcher of rayctl.
var Substrate = launcher.Substrate{Substrate: localspec.Substrate, New: func(_ *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
	return New(onemachine.Config{Logger: log})
}}

// New returns the launcher. It touches nothing yet.
func New(c onemachine.Config) (*onemachine.Launcher, error) { return onemachine.New(c, here{}) }

// here is the substrate: nodes start at once.
type here struct{}

func (here) Name() string                           { return localspec.Name }
func (here) StateSubdir() string                    { return "" }
func (here) Require(context.Context) error          { return nil }
func (here) Start(string) keeper.Start              { return keeper.Start{Mode: keeper.StartSpawn} }
func (here) Check(context.Context) []launcher.Check { return nil }
